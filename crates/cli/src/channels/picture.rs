//! The channels that `--video` declares: pictures, and what is asked of their encoder.

use serde_json::json;
use taut_lab::scenario::ChannelSpec;
use taut_media::picture::{self, ask_channel};
use taut_session::{ChannelId, Direction};

use super::Channels;
#[cfg(feature = "console")]
use super::Declared;

/// Of one picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PictureChannels {
    pub(crate) pictures: ChannelId,
    /// On which it is asked for.
    pub(crate) asks: ChannelId,
}

impl Channels {
    /// Those of pictures, for who shows them, and where it asks for what it lacks.
    #[cfg(feature = "console")]
    pub(crate) fn pictures(&self) -> Vec<taut_console::PictureChannel> {
        let place = |name: &str, schema: &str| {
            let of =
                |known: &Declared| known.spec.name == name && known.spec.schema.as_deref() == Some(schema);
            self.list.iter().position(of).map(|place| ChannelId(place as u8))
        };
        let names = self.list.iter().map(|known| &known.spec.name);
        names
            .filter_map(|name| {
                Some(taut_console::PictureChannel {
                    name: name.clone(),
                    pictures: place(name, picture::SCHEMA)?,
                    asks: place(&ask_channel(name), picture::ASK_SCHEMA),
                })
            })
            .collect()
    }

    /// With those of a picture, unless the file declares them.
    pub(crate) fn with_picture(mut self, name: &str) -> Result<Self, String> {
        let ask = ask_channel(name);
        let picture = json!({ "name": name, "kind": "video", "schema": picture::SCHEMA });
        let back = json!({
            "name": ask, "kind": "command", "schema": picture::ASK_SCHEMA, "encoding": "raw", "delivery": "newest",
            "largest": format!("{}B", picture::ASK),
        });
        for declared in [picture, back] {
            let spec: ChannelSpec = serde_json::from_value(declared).map_err(|error| error.to_string())?;
            self = self.with(spec).map_err(|wrong| format!("--video {name}: {wrong}"))?;
        }
        Ok(self)
    }

    /// The places of a picture's channel and of the one on which it is asked for.
    pub(crate) fn of_picture(&self, name: &str) -> Result<PictureChannels, String> {
        let pictures = self.place_of(name, Direction::ToOperator)?;
        let asks = self.place_of(&ask_channel(name), Direction::ToRobot)?;
        Ok(PictureChannels { pictures, asks })
    }
}
