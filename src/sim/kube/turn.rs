//! One turn of a controller: the objects, the time, the dice and the witness.

use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::KubeOptions;
use super::json as j;
use super::objects::Store;
use super::request_log::{Destruction, Destructive, RequestLog};
use super::resource::Resource;

/// What every controller is handed.
pub(super) struct Turn<'a> {
    pub store: &'a mut Store,
    pub log: &'a mut RequestLog,
    pub options: &'a KubeOptions,
    pub now: Timestamp,
    pub rng: &'a mut ChaCha8Rng,
}

impl Turn<'_> {
    /// Deletes an object on a controller's behalf, and writes down who did it. An object that is being
    /// deleted already is neither changed nor counted again.
    pub(super) fn destroy(&mut self, resource: Resource, object: &Value, actor: &str, grace: Option<u64>) {
        let before = self.store.revision();
        self.store
            .delete(resource, j::namespace(object), j::name(object), grace, self.now);
        if self.store.revision() != before {
            self.note(actor, Destruction::Delete, resource, object);
        }
    }

    /// Evicts a pod on a controller's behalf.
    pub(super) fn evict(&mut self, pod: &Value, actor: &str) {
        self.note(actor, Destruction::Evict, Resource::Pods, pod);
        evict_pod(self.store, pod, self.now);
    }

    fn note(&mut self, actor: &str, how: Destruction, resource: Resource, object: &Value) {
        self.log.destroyed(Destructive {
            uid: None,
            at: self.now,
            actor: actor.to_owned(),
            how,
            resource,
            namespace: j::namespace(object).to_owned(),
            name: j::name(object).to_owned(),
            code: 200,
            requested: false,
        });
    }
}

/// What the eviction API does to a pod: a condition, then a graceful delete.
pub(super) fn evict_pod(store: &mut Store, pod: &Value, now: Timestamp) {
    let (namespace, name) = (j::namespace(pod), j::name(pod));
    store.edit(Resource::Pods, namespace, name, |pod| {
        let why = "Eviction API: evicting";
        j::set_condition(pod, "DisruptionTarget", "True", "EvictionByEvictionAPI", why, now);
    });
    store.delete(Resource::Pods, namespace, name, None, now);
}
