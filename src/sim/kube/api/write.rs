//! POST, PUT, PATCH and DELETE: preconditions first, then validation, then the store.

use std::sync::Arc;

use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::super::json as j;
use super::super::objects::{Deleted, Store};
use super::super::resource::Resource;
use super::route::{Subresource, Target};
use super::status::ApiError;
use super::{json_patch, schema, validate};

const PATCHES: &str =
    "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json";

/// Creates the object in `body`.
pub(crate) fn create(
    store: &mut Store,
    target: &Target,
    body: &[u8],
    now: Timestamp,
    rng: &mut ChaCha8Rng,
) -> Result<Arc<Value>, ApiError> {
    let mut object = parse(body)?;
    check_kind(target, &object)?;
    if target.resource.kind().namespaced {
        require_namespace(store, &target.namespace)?;
        let said = j::namespace(&object);
        if !said.is_empty() && said != target.namespace {
            return Err(ApiError::BadRequest(
                "the namespace of the provided object does not match the namespace sent on the request"
                    .to_owned(),
            ));
        }
    }
    // What only the server decides.
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
    ] {
        j::remove(&mut object, &["metadata", field]);
    }
    if target.resource.kind().status {
        j::remove(&mut object, &["status"]);
    }
    validate::defaults(target.resource, &mut object, rng);
    let name = j::name(&object).to_owned();
    schema::admit(target.resource, &name, &mut object)?;
    validate::created(target.resource, &object)?;
    store
        .create(target.resource, &target.namespace, object, now, rng)
        .ok_or(ApiError::AlreadyExists {
            resource: target.resource,
            name,
        })
}

/// Whether a replacement of the target creates it: it is not there, and its kind allows that
/// (`AllowCreateOnUpdate` in the strategies of k8s.io/kubernetes's pkg/registry).
pub(crate) fn makes_anew(store: &Store, target: &Target) -> bool {
    let allowed = match target.resource {
        Resource::Leases | Resource::Services | Resource::Events => true,
        Resource::Namespaces
        | Resource::Nodes
        | Resource::Pods
        | Resource::ConfigMaps
        | Resource::Deployments
        | Resource::ReplicaSets
        | Resource::NodeClaims
        | Resource::NodePools
        | Resource::TrinoPools
        | Resource::CustomResourceDefinitions => false,
    };
    let name = target.name.as_deref().unwrap_or_default();
    allowed && target.subresource.is_none() && store.get(target.resource, &target.namespace, name).is_none()
}

/// Creates the object in `body`, which was meant to replace one that is not there. The version that it names
/// protects it from nothing; a UID does.
pub(crate) fn create_by_update(
    store: &mut Store,
    target: &Target,
    body: &[u8],
    now: Timestamp,
    rng: &mut ChaCha8Rng,
) -> Result<Arc<Value>, ApiError> {
    let object = parse(body)?;
    check_name(target, &object)?;
    let uid = j::uid(&object);
    if !uid.is_empty() {
        return Err(uid_conflict(target, uid, ""));
    }
    create(store, target, body, now, rng)
}

/// Replaces an object by the one in `body`.
pub(crate) fn update(store: &mut Store, target: &Target, body: &[u8]) -> Result<Arc<Value>, ApiError> {
    let new = parse(body)?;
    check_kind(target, &new)?;
    check_name(target, &new)?;
    let name = target.name.as_deref().unwrap_or_default();
    let old = super::read::get(store, target)?;
    let uid = j::uid(&new);
    if !uid.is_empty() && uid != j::uid(&old) {
        return Err(uid_conflict(target, uid, j::uid(&old)));
    }
    match version(&new) {
        Some(said) if Some(said) != version(&old) => return Err(ApiError::modified(target.resource, name)),
        None if target.resource.kind().custom || target.resource == Resource::Leases => {
            return Err(ApiError::Unversioned {
                resource: target.resource,
                name: name.to_owned(),
            });
        }
        Some(_) | None => {}
    }
    store_change(store, target, &old, new)
}

/// Patches an object; a uid or resourceVersion inside the patch is a precondition.
pub(crate) fn patch(
    store: &mut Store,
    target: &Target,
    content_type: &str,
    body: &[u8],
) -> Result<Arc<Value>, ApiError> {
    let patch = parse(body)?;
    let old = super::read::get(store, target)?;
    let name = target.name.as_deref().unwrap_or_default();
    let mut new = Value::clone(&old);
    match content_type.split(';').next().unwrap_or_default().trim() {
        // For the kinds and fields written here both formats mean the same.
        "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
            if !patch.is_object() {
                return Err(ApiError::BadRequest(
                    "error decoding patch: json: cannot unmarshal into map".to_owned(),
                ));
            }
            j::merge(&mut new, &patch);
        }
        "application/json-patch+json" => json_patch::apply(&mut new, &patch).map_err(|why| {
            ApiError::invalid(
                target.resource,
                name,
                format!("patch: Invalid value: the server rejected our request due to an error in our request: {why}"),
            )
        })?,
        _ => return Err(ApiError::UnsupportedMediaType(PATCHES)),
    }
    // The version is compared before the identity is validated, so a patch that names the version of
    // another object of that name conflicts; one that names only the UID is invalid.
    if version(&new) != version(&old) {
        return Err(ApiError::modified(target.resource, name));
    }
    if j::uid(&new) != j::uid(&old) {
        return Err(ApiError::invalid(
            target.resource,
            name,
            format!(
                "metadata.uid: Invalid value: \"{}\": field is immutable",
                j::uid(&new)
            ),
        ));
    }
    if j::name(&new) != name || j::namespace(&new) != target.namespace {
        return Err(ApiError::BadRequest(
            "the name of the object does not match the name on the URL".to_owned(),
        ));
    }
    store_change(store, target, &old, new)
}

fn store_change(
    store: &mut Store,
    target: &Target,
    old: &Arc<Value>,
    mut new: Value,
) -> Result<Arc<Value>, ApiError> {
    let name = target.name.as_deref().unwrap_or_default();
    if target.subresource == Some(Subresource::Status) {
        let status = new.get("status").cloned().unwrap_or(Value::Null);
        let mut kept = Value::clone(old);
        if status.is_null() {
            j::remove(&mut kept, &["status"]);
        } else {
            j::set(&mut kept, &["status"], status);
        }
        new = kept;
    } else if target.resource.kind().status {
        match old.get("status") {
            Some(status) => j::set(&mut new, &["status"], status.clone()),
            None => j::remove(&mut new, &["status"]),
        }
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        match j::at(old, &["metadata", field]) {
            Some(kept) => j::set(&mut new, &["metadata", field], kept.clone()),
            None => j::remove(&mut new, &["metadata", field]),
        }
    }
    schema::admit(target.resource, name, &mut new)?;
    validate::updated(target.resource, old, &new)?;
    store
        .replace(target.resource, &target.namespace, name, new)
        .ok_or_else(|| ApiError::NotFound {
            resource: target.resource,
            name: name.to_owned(),
        })
}

/// Deletes an object under the preconditions and options in `body` and the query.
pub(crate) fn delete(
    store: &mut Store,
    target: &Target,
    body: &[u8],
    now: Timestamp,
) -> Result<Deleted, ApiError> {
    let options = if body.is_empty() { json!({}) } else { parse(body)? };
    let options = options.get("deleteOptions").cloned().unwrap_or(options);
    let old = super::read::get(store, target)?;
    let name = target.name.as_deref().unwrap_or_default();
    let uid = j::text(&options, &["preconditions", "uid"]).unwrap_or_default();
    let refused = |why: String| ApiError::Precondition {
        resource: target.resource,
        name: name.to_owned(),
        why,
    };
    if !uid.is_empty() && uid != j::uid(&old) {
        return Err(refused(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            j::uid(&old)
        )));
    }
    let wanted = j::text(&options, &["preconditions", "resourceVersion"]);
    if let Some(wanted) = wanted
        && Some(wanted) != version(&old)
    {
        return Err(refused(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({}). The object might have been modified",
            version(&old).unwrap_or_default()
        )));
    }
    let propagation = j::text(&options, &["propagationPolicy"])
        .unwrap_or_else(|| target.query.get("propagationPolicy"))
        .to_owned();
    match propagation.as_str() {
        "" | "Background" => {}
        "Foreground" => {
            store.edit(target.resource, &target.namespace, name, |object| {
                if !j::has_finalizer(object, "foregroundDeletion")
                    && let Some(list) = j::list_mut(object, &["metadata", "finalizers"])
                {
                    list.push(json!("foregroundDeletion"));
                }
            });
        }
        "Orphan" => orphan(store, j::uid(&old)),
        other => {
            return Err(ApiError::invalid(
                target.resource,
                name,
                format!("propagationPolicy: Unsupported value: \"{other}\""),
            ));
        }
    }
    let grace = j::at(&options, &["gracePeriodSeconds"])
        .and_then(Value::as_u64)
        .or_else(|| target.query.number("gracePeriodSeconds"));
    store
        .delete(target.resource, &target.namespace, name, grace, now)
        .ok_or_else(|| ApiError::NotFound {
            resource: target.resource,
            name: name.to_owned(),
        })
}

/// Takes the owner out of its dependents, so that the collector leaves them alone.
fn orphan(store: &mut Store, owner: &str) {
    for resource in Resource::ALL {
        for object in store.list(resource) {
            let depends = j::items(&object, &["metadata", "ownerReferences"])
                .iter()
                .any(|reference| reference.get("uid").and_then(Value::as_str) == Some(owner));
            if depends {
                store.edit(resource, j::namespace(&object), j::name(&object), |object| {
                    if let Some(list) = j::list_mut(object, &["metadata", "ownerReferences"]) {
                        list.retain(|entry| entry.get("uid").and_then(Value::as_str) != Some(owner));
                    }
                });
            }
        }
    }
}

fn version(object: &Value) -> Option<&str> {
    j::text(object, &["metadata", "resourceVersion"]).filter(|version| !version.is_empty())
}

fn parse(body: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        ApiError::BadRequest(format!(
            "the object provided is unrecognized: couldn't get version/kind; json parse error: {error}"
        ))
    })
}

fn check_kind(target: &Target, object: &Value) -> Result<(), ApiError> {
    let kind = target.resource.kind();
    let said = j::text(object, &["kind"]).unwrap_or(kind.kind);
    let version = j::text(object, &["apiVersion"]).map_or_else(|| kind.api_version(), str::to_owned);
    if !object.is_object() || said != kind.kind || version != kind.api_version() {
        return Err(ApiError::BadRequest(format!(
            "{said} in version \"{version}\" cannot be handled as a {}",
            kind.kind
        )));
    }
    Ok(())
}

fn check_name(target: &Target, object: &Value) -> Result<(), ApiError> {
    let name = target.name.as_deref().unwrap_or_default();
    if j::name(object) == name {
        return Ok(());
    }
    Err(ApiError::BadRequest(format!(
        "the name of the object ({}) does not match the name on the URL ({name})",
        j::name(object)
    )))
}

fn uid_conflict(target: &Target, said: &str, is: &str) -> ApiError {
    ApiError::Conflict {
        resource: target.resource,
        name: target.name.clone().unwrap_or_default(),
        why: format!("Precondition failed: UID in precondition: {said}, UID in object meta: {is}"),
    }
}

fn require_namespace(store: &Store, namespace: &str) -> Result<(), ApiError> {
    if store.get(Resource::Namespaces, "", namespace).is_some() {
        return Ok(());
    }
    Err(ApiError::NotFound {
        resource: Resource::Namespaces,
        name: namespace.to_owned(),
    })
}
