//! Applications to drive.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use taut_agent::{DeviceFailure, DeviceMessage, Measured, RobotDevice, SetPoint};
use taut_core::{Datagram, Deadline, Duration, Ecn, Event, Message, PathId, Time, Transmit, Transport};
use taut_io::device::{Stoppable, Stopper};
use taut_io::{Alarm, Clock, Driver, Machine, MachineId};
use taut_netlab::Namespace;
use taut_session::motion::Motion;
use taut_session::{ChannelId, State, StopCause};

/// Sends back every message that arrives over `transport`.
pub(crate) struct Echo<T>(pub(crate) T);

impl<T: Transport> Machine for Echo<T> {
    type Command = Message;
    type Event = Event;

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.0.handle_input(now, input);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(now);
    }

    fn handle_command(&mut self, now: Time, message: Message) {
        self.0.send(now, message).expect("there is room");
    }

    fn handle_alarm(&mut self, _: Time, _: Alarm) {}

    fn alarm_voids(_: &Message) -> bool {
        false
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.0.poll_transmit(now, buffer)
    }

    fn poll_event(&mut self, now: Time) -> Option<Event> {
        let event = self.0.poll_event()?;
        if let Event::Received { data, .. } = &event {
            let message = Message { data: data.clone(), created: now, ..Message::default() };
            self.0.send(now, message).expect("there is room");
        }
        Some(event)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.0.poll_timeout()
    }
}

/// Tells what arrived, and answers on the path that it came from. Commands are datagrams to send.
#[derive(Default)]
pub(crate) struct Mirror {
    answers: bool,
    has_peer: bool,
    /// Wakes up so often.
    period: Option<Duration>,
    due: Option<Time>,
    /// Is due for as long as it has something to send.
    hasty: bool,
    out: VecDeque<(Transmit, Vec<u8>)>,
    told: VecDeque<Told>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    Datagram { at: Time, path: PathId, ecn: Ecn, data: Vec<u8> },
    Woken(Time),
}

impl Mirror {
    pub(crate) fn answering() -> Self {
        Self { answers: true, ..Self::default() }
    }

    pub(crate) fn hasty() -> Self {
        Self { hasty: true, ..Self::default() }
    }

    pub(crate) fn and_waking(self, period: Duration) -> Self {
        Self { period: Some(period), ..self }
    }

    /// Whoever it hears first has proved who he is.
    pub(crate) fn with_peer(self) -> Self {
        Self { has_peer: true, ..self }
    }

    pub(crate) fn waking(period: Duration) -> Self {
        Self { period: Some(period), ..Self::default() }
    }
}

impl Machine for Mirror {
    type Command = (Transmit, Vec<u8>);
    type Event = Told;

    fn has_peer(&self) -> bool {
        self.has_peer
    }
    fn handle_input(&mut self, at: Time, input: Datagram<'_>) {
        let data = input.data.to_vec();
        if self.answers {
            self.out.push_back((Transmit { path: input.path, ..Transmit::default() }, data.clone()));
        }
        self.told.push_back(Told::Datagram { at, path: input.path, ecn: input.ecn, data });
    }

    fn handle_timeout(&mut self, now: Time) {
        let Some(period) = self.period else { return };
        let due = *self.due.get_or_insert(now);
        if now >= due {
            self.told.push_back(Told::Woken(now));
            self.due = Some(due + period);
        }
    }

    fn handle_command(&mut self, _: Time, datagram: (Transmit, Vec<u8>)) {
        self.out.push_back(datagram);
    }

    fn handle_alarm(&mut self, _: Time, _: Alarm) {}

    fn alarm_voids(_: &Self::Command) -> bool {
        false
    }

    fn poll_transmit(&mut self, _: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let (transmit, data) = self.out.pop_front()?;
        buffer.extend_from_slice(&data);
        Some(transmit)
    }

    fn poll_event(&mut self, _: Time) -> Option<Told> {
        self.told.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let sends = self.hasty && !self.out.is_empty();
        self.due.or(sends.then_some(Time::ZERO)).map(|due| Deadline::new(due, "period"))
    }
}

/// Tells which of its calls from outside come, in their order.
#[derive(Default)]
pub(crate) struct Button(VecDeque<Asked>);

/// What a [`Button`] was asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Asked {
    Alarm(Alarm),
    /// An alarm voids it.
    Release,
    Close,
}

impl Machine for Button {
    type Command = Asked;
    type Event = Asked;

    fn handle_input(&mut self, _: Time, _: Datagram<'_>) {}

    fn handle_timeout(&mut self, _: Time) {}

    fn handle_command(&mut self, _: Time, asked: Asked) {
        self.0.push_back(asked);
    }

    fn handle_alarm(&mut self, _: Time, alarm: Alarm) {
        self.0.push_back(Asked::Alarm(alarm));
    }

    fn alarm_voids(asked: &Asked) -> bool {
        *asked == Asked::Release
    }

    fn poll_transmit(&mut self, _: Time, _: &mut Vec<u8>) -> Option<Transmit> {
        None
    }

    fn poll_event(&mut self, _: Time) -> Option<Asked> {
        self.0.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
}

/// Turns until `enough` says so, 5 s at most; gives all events.
pub(crate) fn turn_until<M: Machine>(
    driver: &mut Driver<M>,
    mut enough: impl FnMut(&[(MachineId, M::Event)]) -> bool,
) -> Vec<(MachineId, M::Event)> {
    let end = driver.clock().now() + Duration::from_secs(5);
    let mut events = Vec::new();
    while !enough(&events) && driver.clock().now() < end {
        driver.turn(end, &mut |id, event| events.push((id, event))).expect("the driver goes on");
    }
    events
}

pub(crate) fn loopback() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
    let address = socket.local_addr().expect("it is bound");
    (socket, address)
}

/// So many namespaces; `None`, with the reason printed, where there can be none.
pub(crate) fn namespaces<const N: usize>() -> Option<[Namespace; N]> {
    let made: Result<Vec<_>, _> = (0..N).map(|_| Namespace::new()).collect();
    match made {
        Ok(namespaces) => namespaces.try_into().ok(),
        Err(error) if error.lacks_means() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A device that stands still, whatever it is told.
#[derive(Clone, Default)]
pub(crate) struct Rock {
    /// Who hears when it is stopped, and why.
    tells: Option<(Clock, Stops)>,
}

type Stops = Arc<Mutex<Sender<(Time, StopCause)>>>;

impl Rock {
    pub(crate) fn telling(clock: Clock, stops: Stops) -> Self {
        Self { tells: Some((clock, stops)) }
    }
}

impl Stopper for Rock {
    fn stop(&self, cause: StopCause) {
        if let Some((clock, stops)) = &self.tells {
            let _ = stops.lock().unwrap().send((clock.now(), cause)); // The test may be over.
        }
    }
}

impl Stoppable for Rock {
    fn stopper(&self) -> Arc<dyn Stopper> {
        Arc::new(self.clone())
    }
}

impl RobotDevice for Rock {
    fn period(&self) -> Duration {
        Duration::from_millis(1)
    }
    fn enable(&mut self) -> Result<(), DeviceFailure> {
        Ok(())
    }
    fn apply(&mut self, _: &SetPoint) -> bool {
        true
    }
    fn drive(&mut self, _: ChannelId, _: &Motion, _: Duration) -> bool {
        false
    }
    fn stop(&mut self, cause: StopCause) {
        Stopper::stop(self, cause);
    }
    fn measure(&mut self) -> Option<Measured> {
        Some(Measured { state: State::at(Time::ZERO), controller_force: None, feedback: None })
    }
    fn receive(&mut self, _: ChannelId, _: Option<Duration>, _: &[u8]) {}
    fn limit_bitrate(&mut self, _: taut_core::Bitrate) {}
    fn poll_message(&mut self) -> Option<DeviceMessage> {
        None
    }
    fn feeds_back(&mut self) -> bool {
        true
    }
    fn failure(&mut self) -> Option<DeviceFailure> {
        None
    }
    fn lease(&self) -> bool {
        true
    }
    fn stiffness(&self) -> Option<f32> {
        None
    }
    fn limit_force(&mut self, _: f32) -> bool {
        true
    }
    fn is_real(&self) -> bool {
        false
    }
}
