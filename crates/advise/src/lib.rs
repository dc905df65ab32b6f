//! Which transport for which network: what was measured, kept so that it can be cited, and the decision tree over it; and what a plan needs,
//! the closed-form model and a control law.

pub mod evidence;
pub mod plan;
pub mod recommend;
