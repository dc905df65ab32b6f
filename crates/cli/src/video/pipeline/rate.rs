//! The rate of an encoder inside a pipeline. GStreamer has no property that all have: one for each kind, and its unit.

use gstreamer as gst;
use gstreamer::prelude::*;
use taut_core::Bitrate;

/// By which property, and what 1 of it is, bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    Property(&'static str, u64),
    /// A control of the driver's, by `extra-controls`.
    Control,
}

/// Kinds of encoders, by how the names of their factories begin; the first that fits.
const KNOWN: &[(&str, Means)] = &[
    ("x264enc", Means::Property("bitrate", 1_000)),
    ("openh264enc", Means::Property("bitrate", 1)),
    ("vp8enc", Means::Property("target-bitrate", 1)),
    ("v4l2", Means::Control),
    // NVIDIA's on a card; on a Jetson, whose is `nvv4l2…`, bit/s.
    ("nvv4l2", Means::Property("bitrate", 1)),
    ("nvh264", Means::Property("bitrate", 1_000)),
    ("nvcudah264", Means::Property("bitrate", 1_000)),
    ("nvautogpuh264", Means::Property("bitrate", 1_000)),
    ("vaapi", Means::Property("bitrate", 1_000)),
    ("va", Means::Property("bitrate", 1_000)),
    ("qsv", Means::Property("bitrate", 1_000)),
    ("msdk", Means::Property("bitrate", 1_000)),
    ("omx", Means::Property("target-bitrate", 1)),
];

/// An encoder whose rate can be set.
pub(super) struct Rated {
    element: gst::Element,
    means: Means,
    kbps: u64,
}

/// What there is of encoders in a pipeline.
pub(super) enum Found {
    Known(Rated),
    /// The name of its factory.
    Unknown(String),
    Nothing,
}

/// The last encoder of pictures.
pub(super) fn find(pipeline: &gst::Pipeline) -> Found {
    let mut found = Found::Nothing;
    // What a bin was made last is listed first.
    for element in pipeline.iterate_recurse().into_iter().flatten() {
        let Some(factory) = element.factory() else { continue };
        let class = factory.metadata("klass").unwrap_or_default();
        if !class.contains("Encoder") || !class.contains("Video") || element.is::<gst::Bin>() {
            continue;
        }
        let name = factory.name().to_string();
        return match means(&name).filter(|means| element.has_property(means.property())) {
            Some(means) => Found::Known(Rated { element, means, kbps: 0 }),
            None => {
                found = Found::Unknown(name);
                continue;
            }
        };
    }
    found
}

fn means(name: &str) -> Option<Means> {
    KNOWN.iter().find(|(kind, _)| name.starts_with(kind)).map(|(_, means)| *means)
}

impl Means {
    fn property(self) -> &'static str {
        match self {
            Self::Property(name, _) => name,
            Self::Control => "extra-controls",
        }
    }
}

impl Rated {
    /// From the next frame on this rate; a change of less than a fiftieth is none.
    pub(super) fn set(&mut self, rate: Bitrate) {
        let kbps = (rate.as_bps() / 1_000).max(50);
        if kbps.abs_diff(self.kbps) <= self.kbps / 50 {
            return;
        }
        self.kbps = kbps;
        match self.means {
            Means::Property(name, unit) => self.set_number(name, kbps * 1_000 / unit),
            Means::Control => {
                let bps = i32::try_from(kbps * 1_000).unwrap_or(i32::MAX);
                let controls = gst::Structure::builder("controls").field("video_bitrate", bps).build();
                self.element.set_property("extra-controls", controls);
            }
        }
    }

    /// As large as the property allows.
    fn set_number(&self, name: &str, number: u64) {
        let Some(property) = self.element.find_property(name) else { return };
        let value = if let Some(range) = property.downcast_ref::<gst::glib::ParamSpecUInt>() {
            u32::try_from(number).unwrap_or(u32::MAX).clamp(range.minimum(), range.maximum()).to_value()
        } else if let Some(range) = property.downcast_ref::<gst::glib::ParamSpecInt>() {
            i32::try_from(number).unwrap_or(i32::MAX).clamp(range.minimum(), range.maximum()).to_value()
        } else {
            return;
        };
        self.element.set_property_from_value(name, &value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoders_are_known_by_their_names_and_have_units_of_their_own() {
        assert_eq!(means("x264enc"), Some(Means::Property("bitrate", 1_000)));
        assert_eq!(means("vp8enc"), Some(Means::Property("target-bitrate", 1)));
        assert_eq!(means("v4l2h264enc"), Some(Means::Control));
        assert_eq!(means("vah264lpenc"), Some(Means::Property("bitrate", 1_000)));
        assert_eq!(means("nvv4l2h264enc"), Some(Means::Property("bitrate", 1)));
        assert_eq!(means("theoraenc"), None);
    }

    #[test]
    fn the_rate_of_an_encoder_in_a_pipeline_is_set_in_its_unit() {
        gst::init().unwrap();
        for (name, text, unit) in [
            ("x264enc", "videotestsrc ! x264enc ! fakesink", 1_000),
            ("vp8enc", "videotestsrc ! vp8enc ! fakesink", 1),
            ("openh264enc", "videotestsrc ! openh264enc ! fakesink", 1),
        ] {
            if gst::ElementFactory::find(name).is_none() {
                println!("skipped: there is no {name}");
                continue;
            }
            let pipeline = gst::parse::launch(text).unwrap().downcast::<gst::Pipeline>().unwrap();
            let Found::Known(mut rated) = find(&pipeline) else { panic!("{name} is known") };
            rated.set(Bitrate::from_bps(700_000));
            let of = |element: &gst::Element| element.property_value(rated.means.property());
            let value = of(&rated.element);
            let set = value.get::<u32>().map(u64::from).or_else(|_| value.get::<i32>().map(|set| set as u64));
            assert_eq!(set.unwrap() * unit, 700_000, "{name}");
        }
        let other = gst::parse::launch("videotestsrc ! theoraenc ! fakesink");
        if let Ok(other) = other {
            let found = find(&other.downcast::<gst::Pipeline>().unwrap());
            assert!(matches!(found, Found::Unknown(name) if name == "theoraenc"));
        }
    }
}
