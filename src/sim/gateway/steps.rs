//! Steps of a registered member: admit, drain, seal, suspect, lost, retire, retired.
//!
//! Each runs the checks in the protocol's order (section 2.3); the first that fails decides, and a step
//! that fails leaves no trace. [`decide`] is pure: it says what a step would change, and one place
//! applies it.

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::Upstream;
use super::canon::Covers;
use super::denied::Denied;
use super::fields::{Envelope, Fields, is_word};
use super::ledger::Ledger;
use super::probe::{Observed, probe};
use super::state::{MemberRow, Phase, Pool, Retirement, State};

/// Checks that a receipt must contain (section 5.1).
const REQUIRED_CHECKS: [&str; 4] = ["image", "workers", "catalog-revision", "auth-revision"];

/// What is asked, after static validation.
#[derive(Clone, Debug)]
enum Step {
    Admit(Box<(Receipt, Observed)>),
    Drain,
    Seal,
    Suspect,
    Lost(Evidence),
    Retire,
    Retired,
}

#[derive(Clone, Debug)]
struct Receipt {
    config_revision: String,
    auth_revision: String,
    pod_uid: String,
    boot_id: String,
    node_id: String,
    coordinator_id: String,
}

#[derive(Clone, Debug)]
struct Evidence {
    word: &'static str,
    detail: Value,
    /// pod, boot, node and coordinator, when the evidence is an observed termination.
    terminated: Option<[String; 4]>,
}

/// What a step changes.
#[derive(Debug, Default)]
struct Change {
    phase: Option<Phase>,
    membership: bool,
    retirement: Option<Retirement>,
    certified: Option<(String, String)>,
    failure: Option<Value>,
}

/// One step of the member `instance`, named by the last segment of its path. `None`: no such route.
pub(super) fn run(
    state: &mut State,
    (pool, instance, verb): (&str, &str, &str),
    body: &Map<String, Value>,
    now: Timestamp,
    upstream: &mut dyn Upstream,
) -> Option<Result<Value, Denied>> {
    let fields = Fields::new(body);
    let step = match verb {
        "admit" => {
            return Some(admit(state, (pool, instance), body, now, upstream));
        }
        "drain" => Ok(Step::Drain),
        "seal" => Ok(Step::Seal),
        "suspect" => fields.identity("reason").map(|_| Step::Suspect),
        "lost" => evidence(fields).map(Step::Lost),
        "retire" => Ok(Step::Retire),
        "retired" if fields.flag("resourcesAbsent") => Ok(Step::Retired),
        "retired" => Err(Denied::conflict(
            "POOL_EVIDENCE_REQUIRED",
            "resourcesAbsent must be true",
        )),
        _ => return None,
    };
    let prepared = Envelope::read(body, Covers::Intent).and_then(|envelope| Ok((envelope, step?)));
    Some(
        prepared
            .and_then(|(envelope, step)| transact(state, (pool, instance), &envelope, fields, &step, now)),
    )
}

/// Admission looks for a replay before it probes, so that a lost answer can be resolved after the
/// coordinator died (section 2.3, check 2).
fn admit(
    state: &mut State,
    (pool, instance): (&str, &str),
    body: &Map<String, Value>,
    now: Timestamp,
    upstream: &mut dyn Upstream,
) -> Result<Value, Denied> {
    let fields = Fields::new(body);
    let (row, member) = state.member(pool, instance)?;
    let receipt = fields
        .object("receipt")
        .ok_or_else(|| Denied::validation("receipt must be an object"))?;
    let envelope = Envelope::read(body, Covers::Intent)?;
    if let Some(result) = row.replay(&envelope)? {
        return Ok(result);
    }
    let observed = probe(upstream, &member.url)?;
    let step = Step::Admit(Box::new((read_receipt(receipt)?, observed)));
    transact(state, (pool, instance), &envelope, fields, &step, now)
}

fn read_receipt(receipt: Fields<'_>) -> Result<Receipt, Denied> {
    let certificate = receipt.required("certificateHash")?;
    let workers = receipt.count("readyWorkers")?;
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if certificate.len() != 64 || !certificate.bytes().all(hex) {
        return Err(Denied::validation(
            "certificateHash must be 64 lower-case hex digits",
        ));
    }
    if workers == 0 {
        return Err(not_certified("no worker is ready"));
    }
    let read = Receipt {
        config_revision: receipt.revision("configRevision")?,
        auth_revision: receipt.revision("authRevision")?,
        pod_uid: receipt.identity("podUid")?,
        boot_id: receipt.identity("bootId")?,
        node_id: receipt.identity("nodeId")?,
        coordinator_id: receipt.identity("coordinatorId")?,
    };
    let checks = receipt.words("checks")?;
    if checks.len() > 64 || checks.iter().any(|check| !is_word(check, 64)) {
        return Err(Denied::validation("checks are not acceptable"));
    }
    match REQUIRED_CHECKS.iter().find(|required| !checks.contains(required)) {
        Some(missing) => Err(not_certified(format!("the check {missing} is missing"))),
        None => Ok(read),
    }
}

/// Section 6. Every refusal for want of evidence is static: it comes before anything is looked up.
fn evidence(fields: Fields<'_>) -> Result<Evidence, Denied> {
    let required = |text: &str| Denied::conflict("POOL_EVIDENCE_REQUIRED", text);
    match fields.optional("evidence") {
        Some("PROCESS_TERMINATED") => {
            let termination = fields
                .object("termination")
                .ok_or_else(|| required("a termination is required"))?;
            termination.word("source", 64)?;
            Ok(Evidence {
                word: "PROCESS_TERMINATED",
                detail: json!({
                    "evidence": "PROCESS_TERMINATED",
                    "termination": termination.raw(),
                    "destructiveAuthorization": false,
                }),
                terminated: Some([
                    termination.identity("podUid")?,
                    termination.identity("bootId")?,
                    termination.identity("nodeId")?,
                    termination.identity("coordinatorId")?,
                ]),
            })
        }
        Some("DESTRUCTIVE_OVERRIDE") => {
            let reason = fields.optional("reason");
            let authorized = fields.flag("destructiveAuthorization");
            let reason = reason
                .filter(|_| authorized)
                .ok_or_else(|| required("an override needs destructiveAuthorization and a reason"))?;
            Ok(Evidence {
                word: "DESTRUCTIVE_OVERRIDE",
                detail: json!({
                    "evidence": "DESTRUCTIVE_OVERRIDE",
                    "reason": reason,
                    "destructiveAuthorization": true,
                }),
                terminated: None,
            })
        }
        Some(_) | None => Err(required("the evidence is not known")),
    }
}

fn transact(
    state: &mut State,
    (pool, instance): (&str, &str),
    envelope: &Envelope,
    fields: Fields<'_>,
    step: &Step,
    now: Timestamp,
) -> Result<Value, Denied> {
    let expected = fields.count("expectedGeneration")?;
    let State { pools, ledger, .. } = state;
    let pool = pools
        .get_mut(pool)
        .ok_or_else(|| Denied::not_found(format!("no pool {pool}")))?;
    if let Some(result) = pool.replay(envelope)? {
        return Ok(result);
    }
    pool.fence(envelope)?;
    let member = pool
        .members
        .get(instance)
        .ok_or_else(|| Denied::not_found(format!("no member {instance}")))?;
    if member.generation != expected {
        return Err(Denied::conflict(
            "POOL_STALE_GENERATION",
            format!("generation {expected} is not the member's {}", member.generation),
        ));
    }
    if member.phase.is_irreversible() && !matches!(step, Step::Retired) {
        return Err(Denied::conflict(
            "POOL_IRREVERSIBLE",
            "the member is being retired",
        ));
    }
    let change = decide(pool, member, ledger, step, now)?;
    let result = apply(pool, instance, change, ledger, now)?;
    pool.record(envelope, &result, now);
    Ok(result)
}

fn apply(
    pool: &mut Pool,
    instance: &str,
    change: Change,
    ledger: &Ledger,
    now: Timestamp,
) -> Result<Value, Denied> {
    if change.membership {
        pool.membership += 1;
    }
    let gone = || Denied::plain(StatusCode::INTERNAL_SERVER_ERROR, "the member vanished");
    let member = pool.members.get_mut(instance).ok_or_else(gone)?;
    member.generation += 1;
    if let Some(phase) = change.phase {
        member.phase = phase;
    }
    if let Some((config, auth)) = change.certified {
        member.certified_revision = Some(config);
        member.auth_revision = Some(auth);
    }
    member.retirement = change.retirement.or(member.retirement);
    member.failure = change.failure.or_else(|| member.failure.take());
    let member = pool.members.get(instance).ok_or_else(gone)?;
    Ok(pool.member_json(member, ledger, now))
}

/// The phase machine (section 3).
fn decide(
    pool: &Pool,
    member: &MemberRow,
    ledger: &Ledger,
    step: &Step,
    now: Timestamp,
) -> Result<Change, Denied> {
    let owed = ledger.owed(&member.incarnation, now);
    let to = |phase| Change {
        phase: Some(phase),
        ..Change::default()
    };
    match (step, member.phase) {
        (Step::Admit(admission), Phase::Preparing) => {
            let (receipt, observed) = admission.as_ref();
            certify(pool, member, receipt, observed)?;
            Ok(Change {
                membership: true,
                certified: Some((receipt.config_revision.clone(), receipt.auth_revision.clone())),
                ..to(Phase::Active)
            })
        }
        (Step::Drain, Phase::Active) => {
            if pool.count(Phase::Active) <= pool.settings.min_serving {
                return Err(Denied::conflict(
                    "POOL_SERVING_FLOOR",
                    "the drain would leave fewer members than the floor",
                ));
            }
            Ok(Change {
                membership: true,
                ..to(Phase::Draining)
            })
        }
        (Step::Drain, Phase::Suspect) => Ok(to(Phase::Draining)),
        (Step::Seal, Phase::Draining) if owed.is_zero() => Ok(to(Phase::Sealed)),
        (Step::Seal, Phase::Draining) => Err(Denied::conflict(
            "POOL_NOT_DRAINED",
            format!(
                "{} requests, {} transactions, {} queries",
                owed.pending, owed.transactions, owed.queries
            ),
        )),
        (Step::Suspect, Phase::Preparing | Phase::Active | Phase::Draining | Phase::Sealed) => Ok(Change {
            membership: member.phase == Phase::Active,
            ..to(Phase::Suspect)
        }),
        (Step::Lost(evidence), Phase::Suspect) => {
            let registered = [
                &member.pod_uid,
                &member.boot_id,
                &member.node_id,
                &member.coordinator_id,
            ];
            if evidence
                .terminated
                .as_ref()
                .is_some_and(|ids| ids.each_ref() != registered)
            {
                return Err(Denied::conflict(
                    "POOL_EVIDENCE_REQUIRED",
                    "the termination is of another process",
                ));
            }
            Ok(Change {
                failure: Some(json!({
                    "protocolVersion": 1,
                    "poolId": pool.id,
                    "instanceId": member.instance,
                    "incarnation": member.incarnation,
                    "evidence": evidence.word,
                    "detail": evidence.detail,
                    "outstandingAdmissions": owed.pending,
                    "outstandingTransactions": owed.transactions,
                    "outstandingQueries": owed.queries,
                    "recordedAt": now.to_string(),
                })),
                ..to(Phase::Lost)
            })
        }
        (Step::Retire, Phase::Preparing) if ledger.ever_admitted(&member.incarnation) => Err(
            Denied::conflict("POOL_NOT_DRAINED", "the candidate once admitted work"),
        ),
        (Step::Retire, Phase::Preparing | Phase::Sealed) => Ok(retiring(Retirement::Drained)),
        (Step::Retire, Phase::Lost) if member.failure.is_none() => Err(Denied::conflict(
            "POOL_EVIDENCE_REQUIRED",
            "there is no failure receipt",
        )),
        (Step::Retire, Phase::Lost) => Ok(retiring(Retirement::Failed)),
        (Step::Retired, Phase::Retiring) => Ok(to(Phase::Retired)),
        (
            Step::Admit(_)
            | Step::Drain
            | Step::Seal
            | Step::Suspect
            | Step::Lost(_)
            | Step::Retire
            | Step::Retired,
            phase,
        ) => Err(Denied::conflict(
            "POOL_PHASE",
            format!("not from {}", phase.as_str()),
        )),
    }
}

fn retiring(kind: Retirement) -> Change {
    Change {
        phase: Some(Phase::Retiring),
        retirement: Some(kind),
        ..Change::default()
    }
}

/// Section 5.2, after the phase check.
fn certify(pool: &Pool, member: &MemberRow, receipt: &Receipt, observed: &Observed) -> Result<(), Denied> {
    if (&receipt.pod_uid, &receipt.boot_id) != (&member.pod_uid, &member.boot_id) {
        return Err(not_certified("the receipt names another pod or boot"));
    }
    if (&receipt.node_id, &receipt.coordinator_id) != (&member.node_id, &member.coordinator_id) {
        return Err(not_certified("the receipt names another coordinator"));
    }
    if (&observed.node_id, &observed.coordinator_id) != (&receipt.node_id, &receipt.coordinator_id) {
        return Err(not_certified("another process answers than the receipt names"));
    }
    if receipt.config_revision != member.config_revision {
        return Err(not_certified("the receipt names another revision"));
    }
    match pool.publications.first() {
        Some((id, target)) if *target != receipt.config_revision => Err(Denied::conflict(
            "POOL_PUBLICATION_BARRIER",
            format!("publication {id} is open"),
        )),
        Some(_) | None => Ok(()),
    }
}

fn not_certified(text: impl Into<String>) -> Denied {
    Denied::conflict("POOL_NOT_CERTIFIED", text)
}
