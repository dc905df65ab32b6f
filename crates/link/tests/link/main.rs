//! Links seen from outside, driven in virtual time and by drivers that are late.

#[cfg(test)]
mod driver;
#[cfg(test)]
mod frame_gate;
#[cfg(test)]
mod frame_gate_shared;
#[cfg(test)]
mod frame_gate_stalls;
#[cfg(test)]
mod frame_gate_streams;
#[cfg(test)]
mod measured_paths;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod statistics;
#[cfg(test)]
mod timing;
