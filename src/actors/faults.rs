//! Errors of the ports as facts: what the rules are told when a reading has no answer.

use std::time::Duration;

use crate::cluster::port::ClusterError;
use crate::gateway::port::GatewayFault;
use crate::pool::observation::{Fault, Reading};
use crate::store::port::StoreError;
use crate::trino::port::ProbeError;

/// A Kubernetes error about `subject`.
pub(super) fn of_cluster(subject: impl Into<String>, error: &ClusterError) -> Fault {
    Fault {
        label: error.label(),
        subject: subject.into(),
        detail: error.to_string(),
    }
}

/// A gateway error about `subject`.
pub(super) fn of_gateway(subject: impl Into<String>, error: &GatewayFault) -> Fault {
    Fault {
        label: error.label(),
        subject: subject.into(),
        detail: error.to_string(),
    }
}

/// Label of a cordon that was refused for good.
pub(super) const CORDON_DENIED: &str = "CordonDenied";

/// Label of a protection that was refused for good.
pub(super) const PROTECTION_DENIED: &str = "ProtectionDenied";

/// Whether a permission is missing: it stays so until a person grants it.
pub(super) fn is_forbidden(fault: &Fault) -> bool {
    fault.label == ClusterError::Forbidden(String::new()).label()
}

/// A coordinator error about `subject`.
pub(super) fn of_probe(subject: impl Into<String>, error: &ProbeError) -> Fault {
    Fault {
        label: error.label(),
        subject: subject.into(),
        detail: error.to_string(),
    }
}

/// A store error about `subject`.
pub(super) fn of_store(subject: impl Into<String>, error: &StoreError) -> Fault {
    Fault {
        label: error.label(),
        subject: subject.into(),
        detail: error.to_string(),
    }
}

/// No answer in the time there was.
pub(super) fn timed_out(subject: impl Into<String>, limit: Duration) -> Fault {
    Fault {
        label: "TimedOut",
        subject: subject.into(),
        detail: format!("no answer within {} ms", limit.as_millis()),
    }
}

/// A reading from an answer that may be missing.
pub(super) fn reading<T, E>(
    answer: Option<Result<T, E>>,
    subject: &str,
    limit: Duration,
    fault: impl FnOnce(String, &E) -> Fault,
) -> Reading<T> {
    match answer {
        Some(Ok(seen)) => Reading::Seen(seen),
        Some(Err(error)) => Reading::Unknown(fault(subject.to_owned(), &error)),
        None => Reading::Unknown(timed_out(subject, limit)),
    }
}
