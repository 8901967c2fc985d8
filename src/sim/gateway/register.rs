//! Registration of a member and configuration of a pool (protocol sections 2.3 and 3.1).

use jiff::Timestamp;
use rand::Rng;
use serde_json::{Map, Value};

use super::Upstream;
use super::canon::Covers;
use super::denied::Denied;
use super::fields::{Envelope, Fields};
use super::probe::probe;
use super::state::{BackendRow, Identity, MemberRow, Phase, Pool, Retirement, Settings, State};

/// `PUT pool`: the only call that raises the epoch.
pub(super) fn configure(
    state: &mut State,
    pool: &str,
    body: &Map<String, Value>,
    now: Timestamp,
) -> Result<Value, Denied> {
    let envelope = Envelope::read(body, Covers::IntentAndAuthority)?;
    let settings = read_settings(Fields::new(body))?;
    if let Some(known) = state.pools.get(pool) {
        if let Some(result) = known.replay(&envelope)? {
            return Ok(result);
        }
        may_configure(known, &envelope, &settings)?;
    }
    let row = state
        .pools
        .entry(pool.to_owned())
        .or_insert_with(|| Pool::new(pool));
    row.settings = settings;
    row.epoch = envelope.epoch;
    if envelope.owner.is_some() {
        row.owner.clone_from(&envelope.owner);
    }
    let result = row.to_json();
    row.record(&envelope, &result, now);
    Ok(result)
}

/// Whether the sender may take or keep the pool, and set it so. (A step recorded under another epoch is
/// another intent already, since the hash of this call covers the epoch.)
fn may_configure(pool: &Pool, envelope: &Envelope, settings: &Settings) -> Result<(), Denied> {
    let fenced = |text: &str| Denied::conflict("POOL_STALE_EPOCH", text);
    if envelope.epoch < pool.epoch {
        return Err(fenced("a higher epoch holds the pool"));
    }
    if pool.owner.is_some() && pool.owner != envelope.owner && envelope.epoch == pool.epoch {
        return Err(fenced("the epoch belongs to another owner"));
    }
    if !settings.pooled && pool.members.values().any(|member| member.phase.is_live()) {
        return Err(Denied::conflict("POOL_APIMODE", "live members exist"));
    }
    Ok(())
}

fn read_settings(fields: Fields<'_>) -> Result<Settings, Denied> {
    let pooled = match fields.required("apiMode")? {
        "POOLED" => true,
        "LEGACY" => false,
        other => return Err(Denied::validation(format!("apiMode {other} is not known"))),
    };
    let min_serving = fields.within("minServing", 1, 1000)?;
    let desired_members = if fields.has("desiredMembers") {
        fields.within("desiredMembers", 1, 1000)?
    } else {
        min_serving
    };
    if fields.flag("tenantAdmissionEnabled") {
        return Err(Denied::conflict(
            "TENANT_IDENTITY_UNVERIFIED",
            "no source of tenant identities is configured",
        ));
    }
    Ok(Settings {
        pooled,
        min_serving,
        desired_members,
        max_surge: fields.within("maxSurge", 0, 100)?,
        max_repair: fields.within("maxRepair", 0, 100)?,
        desired_revision: fields.optional("desiredRevision").unwrap_or_default().to_owned(),
    })
}

/// `POST members`.
pub(super) fn register(
    state: &mut State,
    pool_id: &str,
    body: &Map<String, Value>,
    now: Timestamp,
    rng: &mut impl Rng,
    upstream: &mut dyn Upstream,
) -> Result<Value, Denied> {
    let fields = Fields::new(body);
    let backend = registered(state, pool_id, fields)?;
    let envelope = Envelope::read(body, Covers::Intent)?;
    if let Some(pool) = state.pools.get(pool_id)
        && let Some(result) = pool.replay(&envelope)?
    {
        return Ok(result);
    }
    let observed = probe(upstream, &backend.proxy_to)?;
    let member = MemberRow {
        instance: fields.word("instanceId", 256)?,
        incarnation: String::new(),
        backend: backend.name.clone(),
        url: backend.proxy_to.clone(),
        external_url: backend.external_url.clone(),
        phase: Phase::Preparing,
        generation: 0,
        pod_uid: fields.identity("podUid")?,
        boot_id: fields.identity("bootId")?,
        node_id: observed.node_id,
        coordinator_id: observed.coordinator_id,
        config_revision: fields.revision("configRevision")?,
        certified_revision: None,
        auth_revision: None,
        repair_for: fields.optional("repairFor").map(ToOwned::to_owned),
        retirement: None,
        failure: None,
    };
    let State {
        pools,
        identities,
        incarnations,
        ledger,
        ..
    } = state;
    let pool = pools
        .get_mut(pool_id)
        .ok_or_else(|| Denied::not_found(format!("no pool {pool_id}")))?;
    pool.fence(&envelope)?;
    within_budget(pool, &member)?;
    let carried = carried(&member);
    if pool.members.contains_key(&member.instance) || carried.iter().any(|id| identities.contains(id)) {
        return Err(Denied::conflict(
            "POOL_IDENTITY_CONFLICT",
            "an identity of this member was used before",
        ));
    }
    identities.extend(carried);
    let member = MemberRow {
        incarnation: incarnation(rng),
        ..member
    };
    let at = (pool_id.to_owned(), member.instance.clone());
    incarnations.insert(member.incarnation.clone(), at);
    let result = pool.member_json(&member, ledger, now);
    pool.members.insert(member.instance.clone(), member);
    pool.record(&envelope, &result, now);
    Ok(result)
}

/// The registration the member names: it must exist, in the pool's group, at the given URL.
fn registered(state: &State, pool: &str, fields: Fields<'_>) -> Result<BackendRow, Denied> {
    let name = fields.identity("backendName")?;
    let backend = state
        .backends
        .get(&name)
        .ok_or_else(|| Denied::not_found(format!("no backend {name}")))?;
    let conflict = |text: &str| Denied::conflict("POOL_IDENTITY_CONFLICT", text);
    if backend.group != pool {
        return Err(conflict("the backend belongs to another group"));
    }
    let url = fields.optional("url").map(|url| url.trim_end_matches('/'));
    if url.is_some_and(|url| url != backend.proxy_to) {
        return Err(conflict("the backend has another endpoint"));
    }
    Ok(backend.clone())
}

/// Surge and repair budgets, checked here and nowhere else.
fn within_budget(pool: &Pool, member: &MemberRow) -> Result<(), Denied> {
    let Some(target) = &member.repair_for else {
        return if pool.live() < pool.size() + pool.settings.max_surge {
            Ok(())
        } else {
            Err(Denied::conflict("POOL_SURGE_BUDGET", "no surge is left"))
        };
    };
    let over = |text: &str| Denied::conflict("POOL_REPAIR_BUDGET", text);
    if *target == member.instance {
        return Err(Denied::validation("a member cannot repair itself"));
    }
    let target = pool
        .members
        .get(target)
        .ok_or_else(|| Denied::not_found(format!("no member {target}")))?;
    let failed =
        matches!(target.phase, Phase::Suspect | Phase::Lost) || target.retirement == Some(Retirement::Failed);
    let departing = matches!(
        target.phase,
        Phase::Draining | Phase::Sealed | Phase::Retiring | Phase::Retired
    );
    let short = pool.count(Phase::Active) + pool.count(Phase::Preparing) < pool.size();
    if !(failed || departing && short) {
        return Err(over("the named member needs no repair"));
    }
    if pool.live_repairs() >= pool.settings.max_repair {
        return Err(over("no repair is left"));
    }
    let same_target = |other: &MemberRow| other.phase.is_live() && other.repair_for == member.repair_for;
    if pool.members.values().any(same_target) {
        return Err(over("the named member is being repaired"));
    }
    Ok(())
}

fn carried(member: &MemberRow) -> [Identity; 4] {
    [
        Identity::Backend(member.backend.clone()),
        Identity::Endpoint(member.url.clone()),
        Identity::Process(member.pod_uid.clone(), member.boot_id.clone()),
        Identity::Coordinator(member.node_id.clone(), member.coordinator_id.clone()),
    ]
}

/// A random UUID from the simulation's own randomness.
fn incarnation(rng: &mut impl Rng) -> String {
    let mut bytes = [0_u8; 16];
    rng.fill_bytes(&mut bytes);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}
