//! How coordinators are reached: a product option, the same in production and in every test.

use std::fmt;
use std::str::FromStr;

use super::port::{CoordinatorTarget, ProbeError};

/// The address policy of `--coordinator-address`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum CoordinatorAddress {
    /// `service`: the instance's own Service by its cluster DNS name.
    #[default]
    Service,
    /// `pod-ip`: the coordinator pod's address, for a process outside the cluster's DNS.
    PodIp,
    /// `resolve=HOST:PORT`: everything is sent to one place that dispatches by the Host header, which
    /// still carries the Service name (a port-forward, an ingress, a simulated world).
    Resolve(String),
}

/// Why a word is not an address policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not one of the three forms.
    #[error("{0:?} is not a way to reach coordinators: use service, pod-ip or resolve=HOST:PORT")]
    Unknown(String),
    /// `resolve=` without a usable host and port.
    #[error("{0:?} does not name a place: resolve= needs HOST:PORT, such as resolve=127.0.0.1:8080")]
    NoPlace(String),
}

impl FromStr for CoordinatorAddress {
    type Err = AddressError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "service" => return Ok(Self::Service),
            "pod-ip" => return Ok(Self::PodIp),
            _ => {}
        }
        let Some(place) = word.strip_prefix("resolve=") else {
            return Err(AddressError::Unknown(word.to_owned()));
        };
        let parsed = place.parse::<http::uri::Authority>().ok();
        let usable = parsed.is_some_and(|authority| {
            !authority.host().is_empty()
                && authority.port_u16().is_some_and(|port| port > 0)
                && !place.contains('@')
        });
        if usable {
            Ok(Self::Resolve(place.to_owned()))
        } else {
            Err(AddressError::NoPlace(word.to_owned()))
        }
    }
}

impl fmt::Display for CoordinatorAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service => f.write_str("service"),
            Self::PodIp => f.write_str("pod-ip"),
            Self::Resolve(place) => write!(f, "resolve={place}"),
        }
    }
}

/// Where one request goes, and what it calls the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `host:port` that is dialled.
    pub dial: String,
    /// `host:port` of the Host header.
    pub host: String,
}

impl CoordinatorAddress {
    /// Where this process dials the target's coordinator.
    pub fn endpoint(&self, target: &CoordinatorTarget) -> Result<Endpoint, ProbeError> {
        let service = service_authority(target)?;
        match self {
            Self::Service => Ok(Endpoint {
                dial: service.clone(),
                host: service,
            }),
            Self::PodIp => {
                let place = pod_authority(target)?;
                Ok(Endpoint {
                    dial: place.clone(),
                    host: place,
                })
            }
            Self::Resolve(place) => Ok(Endpoint {
                dial: place.clone(),
                host: service,
            }),
        }
    }

    /// The URL the gateway is given. A member's endpoint is recorded for ever and must be unique, so a
    /// `resolve` address is never handed out: the gateway gets the Service name and resolves it itself.
    pub fn member_url(&self, target: &CoordinatorTarget) -> Result<String, ProbeError> {
        let authority = match self {
            Self::Service | Self::Resolve(_) => service_authority(target)?,
            Self::PodIp => pod_authority(target)?,
        };
        Ok(format!("http://{authority}"))
    }
}

fn service_authority(target: &CoordinatorTarget) -> Result<String, ProbeError> {
    if target.instance.is_empty() || target.namespace.is_empty() || target.port == 0 {
        return Err(ProbeError::NoAddress(
            "the target names no Service, namespace or port".to_owned(),
        ));
    }
    Ok(format!(
        "{}.{}.svc.cluster.local:{}",
        target.instance, target.namespace, target.port
    ))
}

fn pod_authority(target: &CoordinatorTarget) -> Result<String, ProbeError> {
    match target.pod_ip.as_deref() {
        None | Some("") => Err(ProbeError::NoAddress(format!(
            "the coordinator pod of {} has no IP yet",
            target.instance
        ))),
        Some(ip) if ip.contains(':') => Ok(format!("[{ip}]:{}", target.port)),
        Some(ip) => Ok(format!("{ip}:{}", target.port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::ids::{InstanceId, Namespace};

    fn target(ip: Option<&str>) -> CoordinatorTarget {
        CoordinatorTarget {
            namespace: Namespace::new("trino"),
            instance: InstanceId::new("cell-1a2b3c4d"),
            port: 8080,
            pod_ip: ip.map(str::to_owned),
        }
    }

    #[test]
    fn each_policy_survives_its_word() {
        for word in [
            "service",
            "pod-ip",
            "resolve=127.0.0.1:9000",
            "resolve=[::1]:9000",
        ] {
            let policy: CoordinatorAddress = word.parse().unwrap();
            assert_eq!(policy.to_string(), word);
        }
    }

    #[test]
    fn a_wrong_word_says_what_is_right() {
        for word in ["", "Service", "dns", "pod_ip"] {
            let error = word.parse::<CoordinatorAddress>().unwrap_err();
            assert_eq!(error, AddressError::Unknown(word.to_owned()));
            assert!(error.to_string().contains("service, pod-ip or resolve=HOST:PORT"));
        }
        for word in [
            "resolve=",
            "resolve=localhost",
            "resolve=:80",
            "resolve=a:0",
            "resolve=http://a:80",
            "resolve=user@a:80",
        ] {
            let error = word.parse::<CoordinatorAddress>().unwrap_err();
            assert_eq!(error, AddressError::NoPlace(word.to_owned()), "{word}");
        }
    }

    #[test]
    fn the_service_is_named_by_its_cluster_dns_name() {
        let url = CoordinatorAddress::Service.member_url(&target(None)).unwrap();
        assert_eq!(url, "http://cell-1a2b3c4d.trino.svc.cluster.local:8080");
    }

    #[test]
    fn resolve_dials_one_place_and_keeps_the_service_name_as_host() {
        let policy = CoordinatorAddress::Resolve("127.0.0.1:9000".into());
        let endpoint = policy.endpoint(&target(None)).unwrap();
        assert_eq!(endpoint.dial, "127.0.0.1:9000");
        assert_eq!(endpoint.host, "cell-1a2b3c4d.trino.svc.cluster.local:8080");
        assert_eq!(
            policy.member_url(&target(None)).unwrap(),
            "http://cell-1a2b3c4d.trino.svc.cluster.local:8080"
        );
    }

    #[test]
    fn a_pod_without_an_ip_has_no_address() {
        assert!(matches!(
            CoordinatorAddress::PodIp.endpoint(&target(None)),
            Err(ProbeError::NoAddress(_))
        ));
        let six = CoordinatorAddress::PodIp
            .endpoint(&target(Some("fd00::7")))
            .unwrap();
        assert_eq!(six.dial, "[fd00::7]:8080");
    }
}
