//! The channels that `--video` declares: pictures, and what is asked of their encoder.

use serde_json::json;
use taut_lab::scenario::ChannelSpec;
use taut_media::picture::{self, ask_channel};
use taut_session::ChannelId;

use super::{Channels, Declared};

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
            let known = self.list.iter().find(|known| known.spec.name == spec.name);
            match known.map(|known| known.spec.schema == spec.schema) {
                Some(true) => continue,
                Some(false) => {
                    let (name, schema) = (&spec.name, spec.schema.unwrap_or_default());
                    return Err(format!(
                        "--video: --channels has {name:?} with a schema other than {schema}"
                    ));
                }
                None => {}
            }
            let wrong = |why| format!("--video {name}: {why}");
            let channel = spec.channel().map_err(wrong)?;
            self.list.push(Declared { line: 0, spec, channel, motion: None });
        }
        Ok(self)
    }

    /// The places of a picture's channel and of the one on which it is asked for.
    pub(crate) fn of_picture(&self, name: &str) -> Result<(ChannelId, ChannelId), String> {
        let place = |name: &str| {
            let at = self.list.iter().position(|known| known.spec.name == name);
            let place = at.and_then(|at| u8::try_from(at).ok()).map(ChannelId);
            place.ok_or_else(|| format!("--video: there is no channel {name:?}"))
        };
        Ok((place(name)?, place(&ask_channel(name))?))
    }
}
