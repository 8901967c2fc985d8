//! How `simulate` shows a story: in place on a terminal, plain lines otherwise.
//!
//! On a terminal one region is redrawn: a line per pool and instance, the nodes, the queries and a progress
//! bar; what happened scrolls above it. Elsewhere only what happened is printed, a line each, with the time
//! of the story in front.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::output;
use crate::sim::scenario::Onlooker;
use crate::sim::scenario::frame::{Frame, InstanceFrame};
use crate::sim::scenario::report::ScenarioReport;

/// Where a story is shown.
#[derive(Debug)]
pub enum Display {
    /// In place.
    Terminal(Box<Region>),
    /// A line for each thing that happened.
    Lines,
    /// Not at all.
    Silent,
}

/// The redrawn region of a terminal.
#[derive(Debug)]
pub struct Region {
    bars: MultiProgress,
    lines: Vec<ProgressBar>,
    progress: ProgressBar,
}

impl Display {
    /// In place when standard output is a terminal that nothing else is written to, lines otherwise.
    #[must_use]
    pub fn for_people(with_logs: bool) -> Self {
        if !std::io::stdout().is_terminal() || (with_logs && std::io::stderr().is_terminal()) {
            return Self::Lines;
        }
        let bars = MultiProgress::with_draw_target(indicatif::ProgressDrawTarget::stdout());
        let progress = bars.add(ProgressBar::new(1000));
        if let Ok(style) = ProgressStyle::with_template("  {bar:30.cyan/dim} {wide_msg}") {
            progress.set_style(style);
        }
        Self::Terminal(Box::new(Region {
            bars,
            lines: Vec::new(),
            progress,
        }))
    }
}

impl Onlooker for Display {
    fn say(&mut self, at: Duration, words: &str) {
        let line = format!("{} {words}", story_time(at));
        match self {
            Self::Terminal(region) => {
                // A failing terminal must not end the story.
                if region.bars.println(&line).is_err() {
                    tracing::debug!("the terminal does not take lines any more");
                }
            }
            Self::Lines => {
                // Whoever reads no more misses the rest; the story goes on to its verdict.
                output::line(&line);
            }
            Self::Silent => {}
        }
    }

    fn show(&mut self, frame: &Frame) {
        match self {
            Self::Terminal(region) => region.show(frame),
            Self::Lines | Self::Silent => {}
        }
    }

    fn watches(&self) -> bool {
        match self {
            Self::Terminal(_) => true,
            Self::Lines | Self::Silent => false,
        }
    }
}

/// The region goes with the story, so that the summary stands alone.
impl Drop for Region {
    fn drop(&mut self) {
        for bar in self.lines.drain(..) {
            bar.finish_and_clear();
        }
        self.progress.finish_and_clear();
    }
}

impl Region {
    fn show(&mut self, frame: &Frame) {
        let lines = frame_lines(frame);
        while self.lines.len() < lines.len() {
            let bar = self.bars.insert_before(&self.progress, ProgressBar::new(1));
            if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                bar.set_style(style);
            }
            self.lines.push(bar);
        }
        while self.lines.len() > lines.len() {
            if let Some(bar) = self.lines.pop() {
                bar.finish_and_clear();
                self.bars.remove(&bar);
            }
        }
        for (bar, line) in self.lines.iter().zip(lines) {
            bar.set_message(line);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a progress of 0.0 ..= 1.0 becomes 0 ..= 1000"
        )]
        self.progress
            .set_position((frame.progress.clamp(0.0, 1.0) * 1000.0) as u64);
        self.progress.set_message(frame.chapter.clone());
    }
}

/// `mm:ss` of the story.
pub(super) fn story_time(at: Duration) -> String {
    let seconds = at.as_secs();
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}

/// The redrawn lines of one frame.
fn frame_lines(frame: &Frame) -> Vec<String> {
    let mut lines = vec![String::new()];
    for pool in &frame.pools {
        lines.push(format!(
            "  {:<12} {}/{} serving, floor {}",
            pool.name, pool.serving, pool.desired, pool.floor
        ));
        // On its own line, which is cut at the terminal's edge: the sentence may be long.
        lines.push(format!("    {}", pool.reason));
        lines.extend(pool.instances.iter().map(instance_line));
    }
    let nodes = frame.nodes;
    lines.push(format!(
        "  nodes    {} · {} drifted · {} cordoned · {} deleting",
        nodes.total, nodes.drifted, nodes.cordoned, nodes.deleting
    ));
    let pods = frame.pods;
    lines.push(format!(
        "  pods     {} · {} protected from Karpenter",
        pods.total, pods.protected
    ));
    let queries = frame.queries;
    lines.push(format!(
        "  queries  {} running · {} finished · {} failed",
        queries.running, queries.finished, queries.failed
    ));
    lines
}

fn instance_line(instance: &InstanceFrame) -> String {
    format!(
        "    {:<14} {:<16} {:<26} {}",
        instance.id, instance.phase, instance.node, instance.node_state
    )
    .trim_end()
    .to_owned()
}

/// The summary of one scenario, for people.
#[must_use]
pub fn summary(report: &ScenarioReport) -> String {
    let verdict = match (&report.violated, report.passed) {
        (None, true) => "passed".to_owned(),
        (Some(rule), _) => format!("FAILED: {rule}"),
        (None, false) => "FAILED".to_owned(),
    };
    let requests: u64 = report.api_requests.values().sum();
    format!(
        "{}: {verdict}\n  replacements  {} requested, {} completed\n  queries       {} started, {} finished, {} failed\n  \
         safety        {} below floor, {} invariants broken, {} nodes deleted, {} pods deleted, {} evicted\n  \
         evidence      {} rows, {} cordons\n  cost          {} Kubernetes requests, {} gateway requests, {} store statements, {} ticks\n  \
         time          {:.0} s of story in {:.1} s",
        report.scenario,
        report.replacements.requested,
        report.replacements.completed,
        report.queries.started,
        report.queries.finished,
        report.queries.failed,
        report.serving_below_floor,
        report.invariant_violations.len(),
        report.node_deletes,
        report.pod_deletes,
        report.pod_evictions,
        report.evidence_rows,
        report.cordons,
        requests,
        report.gateway_requests,
        report.store_statements,
        report.ticks,
        report.story_seconds,
        report.wall_seconds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::scenario::frame::{NodeCounts, PodCounts, PoolFrame, QueryCounts};

    #[test]
    fn a_frame_reads_as_a_small_table() {
        let frame = Frame {
            at: Duration::from_secs(95),
            chapter: "draining cell-0000000a".into(),
            pools: vec![PoolFrame {
                name: "analytics".into(),
                serving: 4,
                desired: 3,
                floor: 3,
                instances: vec![InstanceFrame {
                    id: "cell-0000000a".into(),
                    phase: "DRAINING".into(),
                    node: "n-1".into(),
                    node_state: "drifted, cordoned".into(),
                }],
                reason: "replacing 1 of 3".into(),
            }],
            nodes: NodeCounts {
                total: 7,
                drifted: 6,
                cordoned: 1,
                deleting: 0,
            },
            pods: PodCounts {
                total: 12,
                protected: 12,
            },
            queries: QueryCounts {
                running: 3,
                finished: 40,
                failed: 0,
            },
            progress: 0.5,
        };
        // An empty line stands between what scrolls and what is redrawn.
        let lines = frame_lines(&frame);
        assert_eq!(lines[0], "");
        insta::assert_snapshot!(lines[1..].join("\n"), @r"
        analytics    4/3 serving, floor 3
          replacing 1 of 3
          cell-0000000a  DRAINING         n-1                        drifted, cordoned
        nodes    7 · 6 drifted · 1 cordoned · 0 deleting
        pods     12 · 12 protected from Karpenter
        queries  3 running · 40 finished · 0 failed
        ");
    }
}
