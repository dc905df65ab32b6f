//! The user's ends of channels, and of what happens.

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::channel::Channel;
use crate::error::{RecvError, SendError};
use crate::message::{Message, Schema};
use crate::port::{Port, WAITING};
use crate::queue::Queue;

/// Sends messages of a channel. Made first, then given to a builder by `sends`; it can be copied, and sends from any thread without
/// waiting.
///
/// ```
/// use taut::{Channel, SendError, Sender};
/// let log = Sender::<Vec<u8>>::new(Channel::bulk("log"));
/// assert_eq!(log.send(&b"hello".to_vec()), Err(SendError::NotStarted("log".to_owned())));
/// ```
pub struct Sender<M> {
    pub(crate) port: Arc<Port>,
    message: PhantomData<fn(M)>,
}

impl<M> Clone for Sender<M> {
    fn clone(&self) -> Self {
        Self { port: Arc::clone(&self.port), message: PhantomData }
    }
}

impl<M: Message> Sender<M> {
    /// Of this channel.
    pub fn new(channel: Channel) -> Self {
        Self { port: Port::new(channel, M::SCHEMA, true), message: PhantomData }
    }

    /// Sends it, made now. What becomes of it is counted in [`Status`](crate::Status).
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send(&self, message: &M) -> Result<(), SendError> {
        self.port.send(message)
    }

    /// Would a message be sent now?
    pub fn is_open(&self) -> bool {
        self.port.is_open()
    }
}

impl Sender<Vec<u8>> {
    /// Of this channel, with a schema that is known only when the program runs: payloads are sent as they are.
    pub fn of_schema(channel: Channel, schema: Schema) -> Self {
        Self { port: Port::new(channel, schema, true), message: PhantomData }
    }
}

/// Receives messages of a channel. Made first, then given to a builder by `receives`. 256 messages wait, and of what is repeated in
/// order 1024 while they are short; then the oldest makes way, which is [counted](Self::missed).
pub struct Receiver<M> {
    pub(crate) port: Arc<Port>,
    message: PhantomData<fn() -> M>,
}

impl<M: Message> Receiver<M> {
    /// Of this channel.
    pub fn new(channel: Channel) -> Self {
        Self { port: Port::new(channel, M::SCHEMA, false), message: PhantomData }
    }

    fn read(payload: Result<Vec<u8>, RecvError>) -> Result<M, RecvError> {
        M::decode(&payload?).map_err(|error| RecvError::Malformed(error.to_string()))
    }

    /// The next message, if there is one.
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn try_recv(&self) -> Result<M, RecvError> {
        Self::read(self.port.came.try_pop())
    }

    /// The next message. Waits for it.
    ///
    /// # Errors
    /// See [`RecvError`]; never [`RecvError::Empty`].
    pub fn recv(&self) -> Result<M, RecvError> {
        Self::read(self.port.came.pop(None))
    }

    /// The next message. Waits for it, but no longer than this.
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn recv_timeout(&self, patience: Duration) -> Result<M, RecvError> {
        Self::read(self.port.came.pop(Some(patience)))
    }

    /// The next message, on any async runtime. Cancelling it loses nothing.
    ///
    /// # Errors
    /// See [`RecvError`]; never [`RecvError::Empty`].
    pub async fn next(&self) -> Result<M, RecvError> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Result<M, RecvError>> {
        self.port.came.poll(context).map(Self::read)
    }

    /// Messages that came and were not read in time.
    pub fn missed(&self) -> u64 {
        self.port.came.dropped()
    }
}

impl Receiver<Vec<u8>> {
    /// Of this channel, with a schema that is known only when the program runs: payloads are given on as they are.
    pub fn of_schema(channel: Channel, schema: Schema) -> Self {
        Self { port: Port::new(channel, schema, false), message: PhantomData }
    }
}

/// What happens to a robot or an operator, in order, each event given once. 256 wait; then the oldest makes way, which is
/// [counted](Self::missed).
pub struct Events<E> {
    pub(crate) queue: Arc<Queue<E>>,
}

impl<E> Events<E> {
    pub(crate) fn new() -> Self {
        Self { queue: Arc::new(Queue::new(WAITING)) }
    }

    /// The next event, if there is one.
    ///
    /// # Errors
    /// [`RecvError::Empty`], [`RecvError::Ended`].
    pub fn try_recv(&self) -> Result<E, RecvError> {
        self.queue.try_pop()
    }

    /// The next event. Waits for it.
    ///
    /// # Errors
    /// [`RecvError::Ended`].
    pub fn recv(&self) -> Result<E, RecvError> {
        self.queue.pop(None)
    }

    /// The next event. Waits for it, but no longer than this.
    ///
    /// # Errors
    /// [`RecvError::Empty`], [`RecvError::Ended`].
    pub fn recv_timeout(&self, patience: Duration) -> Result<E, RecvError> {
        self.queue.pop(Some(patience))
    }

    /// The next event, on any async runtime. Cancelling it loses nothing.
    ///
    /// # Errors
    /// [`RecvError::Ended`].
    pub async fn next(&self) -> Result<E, RecvError> {
        poll_fn(|context| self.queue.poll(context)).await
    }

    /// Events that were not read in time.
    pub fn missed(&self) -> u64 {
        self.queue.dropped()
    }
}

#[cfg(feature = "stream")]
impl<M: Message> futures_core::Stream for Receiver<M> {
    type Item = Result<M, RecvError>;

    /// `None` at the end.
    fn poll_next(self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(context).map(|came| Some(came).filter(|came| !matches!(came, Err(RecvError::Ended))))
    }
}

#[cfg(feature = "stream")]
impl<E> futures_core::Stream for Events<E> {
    type Item = E;

    /// `None` at the end.
    fn poll_next(self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<E>> {
        self.queue.poll(context).map(Result::ok)
    }
}

impl<M> fmt::Debug for Sender<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&self.port.channel.name).finish()
    }
}

impl<M> fmt::Debug for Receiver<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&self.port.channel.name).finish()
    }
}

impl<E> fmt::Debug for Events<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}
