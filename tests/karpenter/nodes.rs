//! The nodes beneath a story's pods, their claims, and what an administrator does to them.

use serde_json::{Value, json};

use crate::admin::{is_true, name};
use crate::scene::Scene;

impl Scene {
    /// The NodeClaims of the story's NodePools.
    pub async fn claims(&self) -> Vec<Value> {
        let selector = format!("labelSelector=story%3D{}", self.name);
        let path = format!("/apis/karpenter.sh/v1/nodeclaims?{selector}");
        self.admin.list(&path).await
    }

    /// The NodeClaim of a node, by name.
    pub async fn claim_of(&self, node: &str) -> String {
        let claims = self.claims().await;
        let of_node = claims.iter().find(|claim| claim["status"]["nodeName"] == node);
        name(of_node.unwrap()).to_owned()
    }

    pub async fn claim(&self, claim: &str) -> Option<Value> {
        self.admin
            .get(&format!("/apis/karpenter.sh/v1/nodeclaims/{claim}"))
            .await
    }

    pub async fn delete_claim(&self, claim: &str) {
        self.admin
            .delete(&format!("/apis/karpenter.sh/v1/nodeclaims/{claim}"))
            .await;
    }

    /// A person's own cordon.
    pub async fn cordon(&self, node: &str) {
        let change = json!({"spec": {"unschedulable": true}});
        self.admin.patch(&format!("/api/v1/nodes/{node}"), &change).await;
    }

    /// Changes the NodePool's spec.
    pub async fn patch_node_pool(&self, spec: &Value) {
        let path = format!("/apis/karpenter.sh/v1/nodepools/{}", self.name);
        self.admin.patch(&path, &json!({"spec": spec})).await;
    }

    /// Changes the NodePool's template, so that every node of it drifts.
    pub async fn drift(&self) {
        self.say("every node drifts");
        self.label_template("next").await;
    }

    /// Sets the label of the NodePool's template that makes nodes with another one drift.
    pub async fn label_template(&self, generation: &str) {
        let labels = json!({"generation": generation});
        self.patch_node_pool(&json!({"template": {"metadata": {"labels": labels}}}))
            .await;
    }

    /// Every claim is of the NodePool's present template, and none is going.
    pub async fn until_nothing_drifts(&self) {
        self.until("no claim to be drifted", async || {
            let claims = self.claims().await;
            let settled = |claim: &Value| {
                !is_true(claim, "Drifted") && claim["metadata"]["deletionTimestamp"].is_null()
            };
            claims.iter().all(settled)
        })
        .await;
    }
}
