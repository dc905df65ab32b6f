//! The simulator as others drive it: topologies, clocks, accounts.

#[cfg(test)]
mod accounts;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod reproducible;
#[cfg(test)]
mod topologies;
