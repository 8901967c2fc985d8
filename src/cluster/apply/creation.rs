//! Creating the objects, or adopting what an earlier attempt created.

use super::{fault, named};
use crate::cluster::facts::{ObjectFacts, ObjectKind};
use crate::cluster::port::{Cluster, Created, Manifest};
use crate::pool::ids::{Digest, Epoch, InstanceId, Namespace, ObjectName, ObjectUid};
use crate::pool::instance::{InstanceObjects, ObjectRef};
use crate::pool::names::{
    ANNOTATION_EPOCH, ANNOTATION_SPEC_DIGEST, LABEL_INSTANCE, LABEL_MANAGED_BY, MANAGED_BY,
};
use crate::pool::observation::Fault;
use crate::pool::step::Apply;

/// What an existing object must carry to be adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Whose object it is; also the stem of the five names.
    pub instance: InstanceId,
    /// Digest of the blueprint's content. It covers content, not the epoch, so that a new leader adopts
    /// what its predecessor created.
    pub digest: Digest,
    /// Our epoch: an object of a newer one is not ours to adopt.
    pub epoch: Epoch,
}

/// The five objects by their part in the instance.
#[derive(Default)]
struct Slots {
    coordinator: Option<ObjectRef>,
    workers: Option<ObjectRef>,
    service: Option<ObjectRef>,
    coordinator_config: Option<ObjectRef>,
    worker_config: Option<ObjectRef>,
}

impl Slots {
    /// The slot that an object of this kind and name fills; none when it is not one of the five.
    fn slot(
        &mut self,
        instance: &InstanceId,
        kind: ObjectKind,
        name: &ObjectName,
    ) -> Option<&mut Option<ObjectRef>> {
        let suffix = name.as_str().strip_prefix(instance.as_str())?;
        match (kind, suffix) {
            (ObjectKind::Deployment, "-coordinator") => Some(&mut self.coordinator),
            (ObjectKind::Deployment, "-worker") => Some(&mut self.workers),
            (ObjectKind::Service, "") => Some(&mut self.service),
            (ObjectKind::ConfigMap, "-coordinator-config") => Some(&mut self.coordinator_config),
            (ObjectKind::ConfigMap, "-worker-config") => Some(&mut self.worker_config),
            (ObjectKind::Deployment | ObjectKind::Service | ObjectKind::ConfigMap, _) => None,
        }
    }

    fn complete(self) -> Option<InstanceObjects> {
        Some(InstanceObjects {
            coordinator: self.coordinator?,
            workers: self.workers?,
            service: self.service?,
            coordinator_config: self.coordinator_config?,
            worker_config: self.worker_config?,
        })
    }
}

/// Creates the manifests in their order, adopting those that already stand and are ours. Stops at the
/// first object that is foreign, refused or unknown; what was created before it is adopted next time.
/// Nothing is sent unless the manifests are exactly the five of this instance: any other name could be
/// somebody else's object.
pub async fn apply(cluster: &dyn Cluster, manifests: &[Manifest], expected: &Expected) -> Apply {
    let mut slots = Slots::default();
    for manifest in manifests {
        let (kind, namespace, name) = identity(manifest);
        match slots.slot(&expected.instance, kind, &name) {
            Some(slot) if slot.is_none() && !namespace.is_empty() => {
                let uid = ObjectUid::new("");
                *slot = Some(ObjectRef { name, uid });
            }
            Some(_) | None => {
                return Apply::Refused(format!(
                    "{} is not one of the five objects of {}",
                    named(kind, &namespace, &name),
                    expected.instance
                ));
            }
        }
    }
    if slots.complete().is_none() {
        return Apply::Refused(format!(
            "the rendered objects of {} are not all five",
            expected.instance
        ));
    }
    create(cluster, manifests, expected).await
}

async fn create(cluster: &dyn Cluster, manifests: &[Manifest], expected: &Expected) -> Apply {
    let mut slots = Slots::default();
    for manifest in manifests {
        let (kind, namespace, name) = identity(manifest);
        let subject = named(kind, &namespace, &name);
        let uid = match cluster.create(manifest).await {
            Ok(Created::Created(uid)) => uid,
            Ok(Created::Exists(found)) => match adopt(&found, expected) {
                Ok(uid) => uid,
                Err(outcome) => return *outcome,
            },
            Ok(Created::Denied(message)) => return Apply::Refused(format!("{subject}: {message}")),
            Err(error) => return Apply::Unknown(fault(subject, &error)),
        };
        if let Some(slot) = slots.slot(&expected.instance, kind, &name) {
            *slot = Some(ObjectRef { name, uid });
        }
    }
    match slots.complete() {
        Some(objects) => Apply::Complete(objects),
        None => Apply::Refused(format!("not all five objects of {} were sent", expected.instance)),
    }
}

fn identity(manifest: &Manifest) -> (ObjectKind, Namespace, ObjectName) {
    let (kind, metadata) = match manifest {
        Manifest::ConfigMap(object) => (ObjectKind::ConfigMap, &object.metadata),
        Manifest::Service(object) => (ObjectKind::Service, &object.metadata),
        Manifest::Deployment(object) => (ObjectKind::Deployment, &object.metadata),
    };
    (
        kind,
        Namespace::new(metadata.namespace.clone().unwrap_or_default()),
        ObjectName::new(metadata.name.clone().unwrap_or_default()),
    )
}

/// The UID under which an existing object is adopted, or why it is not.
fn adopt(found: &ObjectFacts, expected: &Expected) -> Result<ObjectUid, Box<Apply>> {
    let subject = named(found.kind, &found.namespace, &found.name);
    let foreign = |why: String| Err(Box::new(Apply::Foreign(format!("{subject} {why}"))));
    let label = |key: &str| found.labels.get(key).map_or("", String::as_str);
    if label(LABEL_MANAGED_BY) != MANAGED_BY {
        return foreign(format!("is managed by {:?}, not by us", label(LABEL_MANAGED_BY)));
    }
    if label(LABEL_INSTANCE) != expected.instance.as_str() {
        return foreign(format!("belongs to instance {:?}", label(LABEL_INSTANCE)));
    }
    let annotation = |key: &str| found.annotations.get(key).map_or("", String::as_str);
    match annotation(ANNOTATION_EPOCH).parse().map(Epoch::new) {
        Err(_) => {
            return foreign(format!(
                "has no readable epoch: {:?}",
                annotation(ANNOTATION_EPOCH)
            ));
        }
        Ok(epoch) if epoch > expected.epoch => {
            return foreign(format!(
                "was made under the newer epoch {epoch}; ours is {}",
                expected.epoch
            ));
        }
        Ok(_) => {}
    }
    if annotation(ANNOTATION_SPEC_DIGEST) != expected.digest.as_str() {
        return foreign(format!(
            "was made of other content: digest {:?}",
            annotation(ANNOTATION_SPEC_DIGEST)
        ));
    }
    if found.deleting {
        // Ours, and going: its name is free again soon, and adopting it would lose it later.
        return Err(Box::new(Apply::Unknown(Fault {
            label: "ObjectBeingDeleted",
            subject,
            detail: "an earlier object of that name is still being deleted".to_owned(),
        })));
    }
    Ok(found.uid.clone())
}
