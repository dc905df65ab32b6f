//! The page, as `web/` builds it.

/// What is served under a path, and its type.
pub(crate) fn asset(path: &str) -> Option<(&'static str, &'static [u8])> {
    Some(match path {
        "/" => ("text/html; charset=utf-8", include_bytes!("../assets/index.html")),
        "/console.css" => ("text/css; charset=utf-8", include_bytes!("../assets/console.css")),
        "/console.js" => ("text/javascript; charset=utf-8", include_bytes!("../assets/console.js")),
        "/player.js" => ("text/javascript; charset=utf-8", include_bytes!("../assets/player.js")),
        "/decoder.js" => ("text/javascript; charset=utf-8", include_bytes!("../assets/decoder.js")),
        "/immersive.js" => ("text/javascript; charset=utf-8", include_bytes!("../assets/immersive.js")),
        "/model.js" => ("text/javascript; charset=utf-8", include_bytes!("../assets/model.js")),
        "/licences.txt" => ("text/plain; charset=utf-8", include_bytes!("../assets/licences.txt")),
        _ => return None,
    })
}
