//! The same through a driver and a transport at both ends.

use std::sync::mpsc::sync_channel;

use hdrhistogram::Histogram;
use taut_core::{
    Datagram, Deadline, Duration, Event, Message, Priority, StreamId, Time, Transmit, Transport, earliest,
};
use taut_io::{Alarm, Clock, Driver, DriverConfig, Machine};

use crate::round_trips::Course;
use crate::site::{End, Site};
use crate::way::{Made, Way};
use crate::{Outcome, SIZE};

/// One block: connects first, which is not measured.
pub(crate) fn block(way: Way, site: &Site, course: Course) -> Outcome<Histogram<u64>> {
    let (client, server) = way.ends(site)?;
    std::thread::scope(|scope| {
        let (tell, told) = sync_channel(1);
        let echo = scope.spawn(move || -> Outcome<()> {
            End::Server.pin();
            let (transport, port) = server()?;
            let mut driver = driver(course.spin)?;
            driver.add(Echo(transport), port)?;
            tell.send(driver.mailbox())?;
            Ok(driver.run(&mut |_, ()| ())?)
        });
        let mailbox = told.recv();
        let ping = scope.spawn(move || ping(client()?, way, course));
        let histogram = ping.join().expect("it does not panic");
        if let Ok(mailbox) = mailbox {
            mailbox.stop();
        }
        echo.join().expect("it does not panic")?;
        histogram
    })
}

fn driver<M: Machine>(spin: bool) -> Outcome<Driver<M>> {
    let busy = if spin { Duration::MAX } else { Duration::ZERO };
    Ok(Driver::new(DriverConfig::new().busy_poll(busy))?)
}

fn ping((transport, port): Made, way: Way, course: Course) -> Outcome<Histogram<u64>> {
    End::Client.pin();
    let mut driver = driver(course.spin)?;
    let ping = Ping {
        transport,
        course,
        due: None,
        asked: Time::ZERO,
        rounds: 0,
        clock: driver.clock(),
        histogram: Histogram::new_with_bounds(1, 30_000_000_000, 3)?,
    };
    let id = driver.add(ping, port)?;
    let end = driver.clock().now() + Duration::from_secs(30);
    while driver.machine(id).is_some_and(|ping| ping.rounds < course.rounds) {
        driver.turn(end, &mut |_, ()| ())?;
        if driver.clock().now() >= end {
            return Err(format!("{way}: a message was lost, and the loop stands still").into());
        }
    }
    let (ping, _) = driver.remove(id).ok_or("it was there")?;
    Ok(ping.histogram)
}

/// A normal sample, as a session sends them.
pub(crate) fn message(now: Time, data: Vec<u8>) -> Message {
    Message { data, created: now, priority: Priority(2), stream: StreamId(2), ..Message::default() }
}

/// Sends back what arrives, at once, as a session does: the answer is there before the driver asks for datagrams, and
/// what a transport has to say besides rides along.
struct Echo(Box<dyn Transport>);

impl Echo {
    fn answer(&mut self, now: Time) {
        while let Some(event) = self.0.poll_event() {
            if let Event::Received { data, .. } = event {
                self.0.send(now, message(now, data)).expect("nothing waits");
            }
        }
    }
}

impl Machine for Echo {
    type Command = ();
    type Event = ();

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.0.handle_input(now, input);
        self.answer(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(now);
        self.answer(now);
    }

    fn handle_command(&mut self, _: Time, (): ()) {}

    fn handle_alarm(&mut self, _: Time, _: Alarm) {}

    fn alarm_voids(_: &()) -> bool {
        false
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.0.poll_transmit(now, buffer)
    }

    fn poll_event(&mut self, _: Time) -> Option<()> {
        None
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.0.poll_timeout()
    }
}

/// Sends a message, and the next when the answer is there, or when its time has come.
struct Ping {
    transport: Box<dyn Transport>,
    course: Course,
    /// Open loop: when to send the next one, and when the last one was to be sent.
    due: Option<Time>,
    asked: Time,
    /// Answers so far.
    rounds: u64,
    clock: Clock,
    histogram: Histogram<u64>,
}

impl Ping {
    fn ask(&mut self, now: Time, mut data: Vec<u8>) {
        data.resize(SIZE, 0);
        // As bare sockets are: read before the message is given away.
        data[..8].copy_from_slice(&self.clock.now().as_nanos().to_le_bytes());
        self.transport.send(now, message(now, data)).expect("nothing waits");
    }

    fn begin(&mut self, now: Time) {
        match self.course.period {
            Some(period) => self.due = Some(now + period),
            None => self.ask(now, Vec::new()),
        }
    }

    fn listen(&mut self, now: Time) {
        while let Some(event) = self.transport.poll_event() {
            match event {
                Event::Connected => self.begin(now),
                Event::Received { data, .. } => self.answered(now, data),
                _ => {}
            }
        }
    }

    fn answered(&mut self, now: Time, data: Vec<u8>) {
        let sent = data.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if self.rounds >= self.course.warm {
            self.histogram.saturating_record(self.clock.now().as_nanos().saturating_sub(sent));
        }
        self.rounds += 1;
        match self.course.period {
            // Not before the answer: bare sockets block until then.
            Some(period) => self.due = Some((self.asked + period).max(now)),
            None if self.rounds < self.course.rounds => self.ask(now, data),
            None => {}
        }
    }
}

impl Machine for Ping {
    type Command = ();
    type Event = ();

    fn handle_input(&mut self, now: Time, input: Datagram<'_>) {
        self.transport.handle_input(now, input);
        self.listen(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.transport.handle_timeout(now);
        self.listen(now);
        if let Some(due) = self.due.take_if(|due| *due <= now) {
            self.asked = due;
            self.ask(now, Vec::new());
        }
    }

    fn handle_command(&mut self, _: Time, (): ()) {}

    fn handle_alarm(&mut self, _: Time, _: Alarm) {}

    fn alarm_voids(_: &()) -> bool {
        false
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.transport.poll_transmit(now, buffer)
    }

    fn poll_event(&mut self, _: Time) -> Option<()> {
        None
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let due = self.due.map(|at| Deadline::new(at, "message"));
        earliest(self.transport.poll_timeout(), due)
    }
}
