//! How `simulate --scenario all` shows many stories: on a terminal a line for each that runs, in place; a line
//! for each that ended.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::display::story_time;
use super::output;
use crate::sim::scenario::Onlooker;
use crate::sim::scenario::frame::Frame;
use crate::sim::scenario::report::ScenarioReport;

/// The stories of one run.
#[derive(Clone, Debug)]
pub struct Roster {
    bars: Arc<MultiProgress>,
    total: usize,
}

/// One story that runs.
#[derive(Debug)]
struct Entry {
    bar: ProgressBar,
    name: &'static str,
    words: String,
}

impl Roster {
    /// Of so many stories. In place only where standard error is a terminal.
    #[must_use]
    pub fn of(total: usize) -> Self {
        Self {
            bars: Arc::new(MultiProgress::new()),
            total,
        }
    }

    /// Who looks on at the story of this name.
    #[must_use]
    pub fn entry(&self, name: &'static str) -> Box<dyn Onlooker> {
        let bar = self.bars.add(ProgressBar::new(1));
        if let Ok(style) = ProgressStyle::with_template("  {wide_msg}") {
            bar.set_style(style);
        }
        Box::new(Entry {
            bar,
            name,
            words: String::new(),
        })
    }

    /// A line on standard output, above whatever is redrawn.
    pub fn line(&self, text: &str) {
        self.bars.suspend(|| output::line(text));
    }

    /// A line on standard error, above whatever is redrawn.
    pub fn note(&self, text: &str) {
        self.bars.suspend(|| output::note(text));
    }

    /// The line of a story that ended, the `nth` from 1.
    #[must_use]
    pub fn ended(&self, nth: usize, report: &ScenarioReport) -> String {
        let verdict = if report.passed { "passed" } else { "FAILED" };
        let replaced = match report.replacements.requested {
            0 => String::new(),
            requested => format!("{} of {requested} replaced", report.replacements.completed),
        };
        let line = format!(
            "[{nth:>2}/{}] {verdict}  {:<30} {replaced:<16} {:>4} queries, {} failed  {:>5.0} s of story in {:.0} s",
            self.total,
            report.scenario,
            report.queries.started,
            report.queries.failed,
            report.story_seconds,
            report.wall_seconds,
        );
        match &report.violated {
            Some(rule) => format!("{line}\n        {rule}"),
            None => line,
        }
    }
}

impl Onlooker for Entry {
    fn say(&mut self, _: Duration, words: &str) {
        words.trim().clone_into(&mut self.words);
    }

    fn show(&mut self, frame: &Frame) {
        self.bar.set_message(format!(
            "{:<30} {}  {}",
            self.name,
            story_time(frame.at),
            self.words
        ));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_story_says_the_rule_beneath() {
        let report = ScenarioReport {
            scenario: "drift".into(),
            violated: Some("S2: a pod was evicted".into()),
            ..ScenarioReport::default()
        };
        insta::assert_snapshot!(Roster::of(12).ended(3, &report), @r"
        [ 3/12] FAILED  drift                                              0 queries, 0 failed      0 s of story in 0 s
                S2: a pod was evicted
        ");
    }
}
