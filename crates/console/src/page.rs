//! A page that is spoken with, whatever carries the messages.

use std::sync::Arc;

use taut_core::Duration;
use taut_io::Clock;

use crate::Shared;
use crate::frame::FromPage;
use crate::outbox::{Closed, Due, Mailbox};
use crate::seat::PageId;

/// How often states go to pages.
const STATES: Duration = Duration::from_millis(20);

/// What messages get to a page by.
pub(crate) trait Carrier {
    /// Takes what goes next, and waits while the page takes no more of what has to get there.
    fn carry(&mut self, due: Due) -> Result<(), Closed>;
    /// Nothing goes there any more, nor is heard from there.
    fn close(&mut self);
}

/// A page from when it comes until this is dropped: then what it held is let go, and its seat is free.
pub(crate) struct Conversation {
    shared: Arc<Shared>,
    mailbox: Mailbox,
    page: PageId,
    aside: bool,
}

impl Conversation {
    /// One that has shown the token. `None`: there are too many.
    pub(crate) fn enter(shared: &Arc<Shared>, mailbox: &Mailbox, aside: bool) -> Option<Self> {
        let page = shared.enter(Clock::since_boot(), mailbox, aside)?;
        Some(Self { shared: shared.clone(), mailbox: mailbox.clone(), page, aside })
    }

    /// Takes what it says. An error: that is nothing that there is, and ends it.
    pub(crate) fn says(&self, message: &[u8]) -> Result<(), Closed> {
        let said = FromPage::parse(message).ok_or(Closed)?;
        if self.aside && !matches!(said, FromPage::Stop(_)) {
            return Err(Closed);
        }
        self.shared.take(self.page, &self.mailbox, said);
        Ok(())
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.shared.leave(self.page);
    }
}

/// Gives a page what waits for it until either is closed.
pub(crate) fn write_to(mut page: impl Carrier, mailbox: &Mailbox) {
    let mut states = Clock::since_boot();
    loop {
        // Whatever else goes, states do once in a while.
        let now = Clock::since_boot();
        let left = states.saturating_since(now);
        if left.is_zero() {
            states = now + STATES;
        }
        if mailbox.wait(left.into()).and_then(|due| page.carry(due)).is_err() {
            break;
        }
    }
    page.close();
}
