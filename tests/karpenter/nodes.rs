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

    /// Deletes the NodeClaim of a node; its name.
    pub async fn delete_claim_of(&self, node: &str) -> String {
        let claim = self.claim_of(node).await;
        self.admin
            .delete(&format!("/apis/karpenter.sh/v1/nodeclaims/{claim}"))
            .await;
        claim
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
        let labels = json!({"generation": "next"});
        self.patch_node_pool(&json!({"template": {"metadata": {"labels": labels}}}))
            .await;
    }

    /// Karpenter says of every claim that it drifts.
    pub async fn until_all_drift(&self) {
        self.until("every claim to be drifted", async || {
            self.claims().await.iter().all(|claim| is_true(claim, "Drifted"))
        })
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
