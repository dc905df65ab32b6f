//! Which transport for which network: what was measured, kept so that it can be cited, and the decision tree over it.

pub mod evidence;
pub mod plan;
pub mod recommend;
