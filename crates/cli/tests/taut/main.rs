//! The `taut` command as a user meets it: the built program, its output, its files and its exit status.

#[cfg(test)]
mod arguments;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod channels;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod confinement;
#[cfg(test)]
mod determinism;
#[cfg(test)]
mod devices;
#[cfg(test)]
mod diagnostics;
#[cfg(test)]
mod emulation;
#[cfg(test)]
mod fault_script;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod gamepad;
#[cfg(test)]
mod gap;
#[cfg(test)]
mod gate;
#[cfg(test)]
mod gstreamer;
#[cfg(test)]
mod guide;
#[cfg(test)]
mod json;
#[cfg(test)]
mod kernel;
#[cfg(test)]
mod keyboard;
#[cfg(test)]
mod law;
#[cfg(test)]
mod map;
#[cfg(test)]
mod parts;
#[cfg(test)]
mod probe;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod real;
#[cfg(test)]
mod recommend;
#[cfg(test)]
mod recording;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod so101;
#[cfg(test)]
mod sound;
#[cfg(test)]
mod video;
#[cfg(test)]
mod wireshark;
#[cfg(test)]
mod world;
