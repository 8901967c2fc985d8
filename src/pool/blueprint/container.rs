//! What binds a container to its instance: the image, three environment variables, the config mount.

use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec, VolumeMount};

use super::pod::Component;
use super::{RenderError, Rendering};
use crate::pool::names::{
    CONFIG_DIR, CONFIG_VOLUME, ENV_DISCOVERY_URI, ENV_ENVIRONMENT, ENV_INSTANCE, INJECTED_ENV, ObjectNames,
};

pub(super) fn bind(
    spec: &mut PodSpec,
    rendering: &Rendering<'_>,
    names: &ObjectNames,
    component: Component,
) -> Result<(), RenderError> {
    let blueprint = rendering.blueprint;
    let environment = environment(rendering, names);
    for container in spec
        .containers
        .iter_mut()
        .chain(spec.init_containers.iter_mut().flatten())
    {
        let env = container.env.get_or_insert_default();
        env.retain(|variable| !INJECTED_ENV.contains(&variable.name.as_str()));
        env.extend(environment.iter().cloned());
    }
    let Some(main) = spec
        .containers
        .iter_mut()
        .find(|container| container.name == blueprint.container)
    else {
        return Err(RenderError::NoContainer {
            component: component.as_str(),
            container: blueprint.container.clone(),
        });
    };
    main.image = Some(blueprint.image.clone());
    mount(main);
    Ok(())
}

/// Values are plain text, so that they hold in every container, whatever the pod's DNS policy says.
fn environment(rendering: &Rendering<'_>, names: &ObjectNames) -> Vec<EnvVar> {
    let blueprint = rendering.blueprint;
    let uri = format!(
        "http://{}.{}.svc:{}",
        names.service, blueprint.namespace, blueprint.http_port
    );
    [
        (ENV_DISCOVERY_URI, uri),
        (ENV_ENVIRONMENT, blueprint.environment.clone()),
        (ENV_INSTANCE, rendering.instance.to_string()),
    ]
    .into_iter()
    .map(|(name, value)| EnvVar {
        name: name.to_owned(),
        value: Some(value),
        value_from: None,
    })
    .collect()
}

fn mount(container: &mut Container) {
    let mounts = container.volume_mounts.get_or_insert_default();
    mounts.retain(|mount| mount.name != CONFIG_VOLUME);
    mounts.push(VolumeMount {
        name: CONFIG_VOLUME.to_owned(),
        mount_path: CONFIG_DIR.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    });
}
