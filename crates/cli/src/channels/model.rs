//! Joints that a robot tells, and a model that shows them.

use taut_session::{ChannelId, Direction, Encoding};

use super::{Channels, Declared};

impl Channels {
    /// On which the robot tells where its joints are: to the operator, JSON, of a name that ends with `measured_js`.
    pub(crate) fn of_joints(&self) -> Option<ChannelId> {
        let tells = |known: &Declared| {
            known.channel.direction() == Direction::ToOperator
                && known.spec.bytes() == Encoding::Json
                && known.spec.name.ends_with("measured_js")
        };
        self.list.iter().position(tells).and_then(|at| u8::try_from(at).ok()).map(ChannelId)
    }
}

/// A model of primitives, and the names of its joints that move by themselves, in the order of the file.
#[cfg(feature = "console")]
pub(crate) fn model(path: &std::path::Path) -> Result<(String, Vec<String>), String> {
    let urdf = super::read(path)?;
    let joints = super::urdf::shown(&urdf).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok((urdf, joints))
}
