//! The lab through its interface: scenarios in, results and files out.

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod campaigns;
#[cfg(test)]
mod channels;
#[cfg(test)]
mod combinations;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod devices;
#[cfg(test)]
mod elements;
#[cfg(test)]
mod files;
#[cfg(test)]
mod haptic_video;
#[cfg(test)]
mod probe;
#[cfg(test)]
mod recordings;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod results;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod session_paths;
#[cfg(test)]
mod teleop;
#[cfg(test)]
mod world;
