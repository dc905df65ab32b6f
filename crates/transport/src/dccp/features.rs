//! Feature negotiation (RFC 4340 section 6).

use taut_core::{Deadline, Duration, Time};
use taut_wire::dccp::{DccpOption, Negotiation, ResetCode, Seq, feature};

use super::config::{Ccid, DccpConfig};
use super::sequence::DEFAULT_WINDOW;

/// Where a feature is located.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At this end.
    Local,
    /// At the other.
    Remote,
}

/// How two wishes become one value (section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The server's first preference that the client accepts. Values are one byte.
    ServerPriority,
    /// What the feature's location says. Values have so many bytes, from the first number to the second.
    NonNegotiable { bytes: usize, least: u64, most: u64 },
}

/// First time to wait for a Confirm.
const FIRST_RETRY: Duration = Duration::from_millis(300);
/// The longest one.
const MAX_RETRY: Duration = Duration::from_secs(64);

/// One feature at one place.
#[derive(Clone, Debug)]
struct Feature {
    number: u8,
    place: Place,
    rule: Rule,
    value: u64,
    /// Of a server-priority feature: what is acceptable, the preferred first.
    preferences: Vec<u8>,
    change: Option<Change>,
    /// The Confirm that is owed, encoded.
    confirm: Option<Vec<u8>>,
    /// The connection cannot live without agreement.
    mandatory: bool,
}

/// A change that is not confirmed yet.
#[derive(Clone, Copy, Debug)]
struct Change {
    value: u64,
    /// What is wanted by now instead: asked for once this change is confirmed (UNSTABLE, RFC 4340 section 6.6.2), so that a
    /// Confirm can only be for this one.
    next: Option<u64>,
    /// When to say it again; `None` before it was said.
    again: Option<Time>,
    interval: Duration,
}

/// All features of a connection.
#[derive(Clone, Debug)]
pub(super) struct Features {
    server: bool,
    list: Vec<Feature>,
    /// Confirms that are owed for features that are not known, or with values that cannot be.
    refusals: Vec<(Negotiation, u8)>,
    /// FGSS: the greatest number sent with a new Change (section 6.6.4).
    greatest_sent: Option<Seq>,
    /// FGSR: the greatest number received with an option of this kind.
    greatest_received: Option<Seq>,
}

/// The most refusals that are owed at a time; more are not answered.
const MAX_REFUSALS: usize = 8;

impl Features {
    pub(super) fn new(config: &DccpConfig, server: bool) -> Self {
        let ccids: Vec<u8> = config.ccids.iter().map(|ccid| *ccid as u8).collect();
        let mut list = Vec::new();
        for place in [Place::Local, Place::Remote] {
            let mut add = |number, rule, value, preferences: &[u8]| {
                let preferences = preferences.to_vec();
                let (change, confirm, mandatory) = (None, None, false);
                list.push(Feature { number, place, rule, value, preferences, change, confirm, mandatory });
            };
            let priority = Rule::ServerPriority;
            add(feature::CCID, priority, Ccid::TcpLike as u64, &ccids);
            add(feature::ALLOW_SHORT_SEQNOS, priority, 0, &[0]);
            let window = Rule::NonNegotiable { bytes: 6, least: 32, most: (1 << 46) - 1 };
            add(feature::SEQUENCE_WINDOW, window, DEFAULT_WINDOW, &[]);
            let incapable: &[u8] = match (place, config.ecn) {
                (Place::Local, false) => &[1],
                (Place::Local, true) => &[0],
                (Place::Remote, _) => &[0, 1],
            };
            add(feature::ECN_INCAPABLE, priority, 0, incapable);
            let ratio = Rule::NonNegotiable { bytes: 2, least: 0, most: u64::from(u16::MAX) };
            add(feature::ACK_RATIO, ratio, 2, &[]);
            add(feature::SEND_ACK_VECTOR, priority, 0, &[0, 1]);
            add(feature::SEND_NDP_COUNT, priority, 0, &[0, 1]);
            add(feature::MINIMUM_CHECKSUM_COVERAGE, priority, 0, &[0]);
            add(feature::CHECK_DATA_CHECKSUM, priority, 0, &[0]);
            add(feature::SEND_LOSS_EVENT_RATE, priority, 0, &[0, 1]);
        }
        let mut this =
            Self { server, list, refusals: Vec::new(), greatest_sent: None, greatest_received: None };
        // Without agreement the connection would fall back to the profile that new connections begin with.
        for place in [Place::Local, Place::Remote] {
            let ccid = this.find(feature::CCID, place).expect("it was added");
            ccid.mandatory = !config.ccids.contains(&Ccid::TcpLike);
            if config.ccids != [Ccid::TcpLike] {
                ccid.start(u64::from(ccids[0]));
            }
        }
        if !config.ecn {
            this.find(feature::ECN_INCAPABLE, Place::Local).expect("it was added").start(1);
        }
        this
    }

    /// The value in force.
    pub(super) fn get(&self, number: u8, place: Place) -> u64 {
        let found = self.list.iter().find(|feature| feature.number == number && feature.place == place);
        found.map_or(0, |feature| feature.value)
    }

    /// The profile of the half-connection that begins at `place`; `None` when none was agreed that this end accepts.
    pub(super) fn ccid(&self, place: Place) -> Option<Ccid> {
        let ccid =
            self.list.iter().find(|feature| feature.number == feature::CCID && feature.place == place)?;
        match ccid.value as u8 {
            value if !ccid.preferences.contains(&value) => None,
            2 => Some(Ccid::TcpLike),
            _ => Some(Ccid::Tfrc),
        }
    }

    /// Profiles do not change in the middle of a connection.
    pub(super) fn fix_ccids(&mut self) {
        for feature in self.list.iter_mut().filter(|feature| feature.number == feature::CCID) {
            feature.preferences = vec![feature.value as u8];
            feature.change = None;
        }
    }

    /// Negotiates for `value`, unless that is in force or asked for already.
    pub(super) fn want(&mut self, number: u8, place: Place, value: u64) {
        let feature = self.find(number, place).expect("a known feature");
        let heading_for = feature.change.map_or(feature.value, |change| change.next.unwrap_or(change.value));
        if heading_for == value {
            return;
        }
        if feature.rule == Rule::ServerPriority {
            // Nothing else would do, whatever the server prefers.
            feature.preferences = vec![value as u8];
        }
        match &mut feature.change {
            Some(said) if said.again.is_some() && feature.rule != Rule::ServerPriority => {
                said.next = Some(value)
            }
            _ => feature.start(value),
        }
    }

    /// A Change or a Confirm arrived in the packet `seq`, which acknowledges `ack`. `mandatory`: it must be followed.
    ///
    /// # Errors
    /// The code of the Reset that it makes necessary.
    pub(super) fn handle(
        &mut self,
        seq: Seq,
        ack: Option<Seq>,
        option: (Negotiation, u8, &[u8]),
        mandatory: bool,
    ) -> Result<(), ResetCode> {
        // Section 6.6.4: options that were overtaken by later ones do not count.
        if self.greatest_received.is_some_and(|greatest| seq.is_before(greatest)) {
            return Ok(());
        }
        self.greatest_received = Some(seq);
        let (negotiation, number, value) = option;
        match negotiation {
            Negotiation::ChangeL => self.handle_change(Place::Remote, number, value, mandatory),
            Negotiation::ChangeR => self.handle_change(Place::Local, number, value, mandatory),
            Negotiation::ConfirmL | Negotiation::ConfirmR => {
                let place = match negotiation {
                    Negotiation::ConfirmL => Place::Remote,
                    _ => Place::Local,
                };
                let current = ack.zip(self.greatest_sent).is_some_and(|(ack, sent)| !ack.is_before(sent));
                if current { self.handle_confirm(place, number, value, mandatory) } else { Ok(()) }
            }
        }
    }

    fn handle_change(
        &mut self,
        place: Place,
        number: u8,
        value: &[u8],
        mandatory: bool,
    ) -> Result<(), ResetCode> {
        let server = self.server;
        let agreed = self.find(number, place).is_some_and(|feature| feature.follow(value, server, mandatory));
        match agreed {
            true => Ok(()),
            false if mandatory => Err(ResetCode::MandatoryError),
            false => {
                // Sections 6.6.7 and 6.6.8: an empty Confirm.
                let confirm = match place {
                    Place::Local => Negotiation::ConfirmL,
                    Place::Remote => Negotiation::ConfirmR,
                };
                if self.refusals.len() < MAX_REFUSALS {
                    self.refusals.push((confirm, number));
                }
                Ok(())
            }
        }
    }

    fn handle_confirm(
        &mut self,
        place: Place,
        number: u8,
        value: &[u8],
        mandatory: bool,
    ) -> Result<(), ResetCode> {
        let unknown = if mandatory { Err(ResetCode::MandatoryError) } else { Ok(()) };
        let Some(feature) = self.find(number, place) else { return unknown };
        let Some(change) = feature.change else { return Ok(()) };
        let confirmed = match feature.rule {
            _ if value.is_empty() => {
                if feature.mandatory {
                    return Err(ResetCode::MandatoryError);
                }
                feature.value
            }
            Rule::ServerPriority => {
                let value = value[0];
                let acceptable = feature.preferences.contains(&value) || u64::from(value) == feature.value;
                acceptable.then_some(u64::from(value)).ok_or(ResetCode::OptionError)?
            }
            Rule::NonNegotiable { bytes, .. } => match number_of(value) {
                number if value.len() == bytes && number == change.value => number,
                // Confirms the change before once more, as that one was heard twice.
                number if value.len() == bytes && number == feature.value => return Ok(()),
                _ => return Err(ResetCode::OptionError),
            },
        };
        (feature.value, feature.change) = (confirmed, None);
        if let Some(next) = change.next.filter(|next| *next != confirmed) {
            feature.start(next);
        }
        Ok(())
    }

    /// Writes the Confirms that are owed, and the Changes that are due; all of them when `all`. For the packet `seq`.
    pub(super) fn emit(&mut self, now: Time, seq: Seq, all: bool, options: &mut Vec<u8>) {
        for (negotiation, feature) in self.refusals.drain(..) {
            DccpOption::Feature { negotiation, feature, value: &[] }.emit(options);
        }
        for feature in &mut self.list {
            let local = feature.place == Place::Local;
            if let Some(value) = feature.confirm.take() {
                let negotiation = if local { Negotiation::ConfirmL } else { Negotiation::ConfirmR };
                DccpOption::Feature { negotiation, feature: feature.number, value: &value }.emit(options);
            }
            let Some(change) = &mut feature.change else { continue };
            if !all && change.again.is_some_and(|again| again > now) {
                continue;
            }
            if change.again.is_none() {
                self.greatest_sent = Some(seq);
            }
            change.again = Some(now + change.interval);
            change.interval = change.interval.saturating_mul(2).min(MAX_RETRY);
            if feature.mandatory {
                DccpOption::Mandatory.emit(options);
            }
            let negotiation = if local { Negotiation::ChangeL } else { Negotiation::ChangeR };
            let number = change.value.to_be_bytes();
            let value = match feature.rule {
                Rule::ServerPriority => &feature.preferences,
                Rule::NonNegotiable { bytes, .. } => &number[8 - bytes..],
            };
            DccpOption::Feature { negotiation, feature: feature.number, value }.emit(options);
        }
    }

    /// Is there something that should be said at once?
    pub(super) fn is_due(&self, now: Time) -> bool {
        let due = |change: Change| change.again.is_none_or(|again| again <= now);
        !self.refusals.is_empty()
            || self.list.iter().any(|feature| feature.confirm.is_some() || feature.change.is_some_and(due))
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        let again = self.list.iter().filter_map(|feature| feature.change?.again).min()?;
        Some(Deadline::new(again, "feature negotiation"))
    }

    fn find(&mut self, number: u8, place: Place) -> Option<&mut Feature> {
        self.list.iter_mut().find(|feature| feature.number == number && feature.place == place)
    }
}

impl Feature {
    fn start(&mut self, value: u64) {
        self.change = Some(Change { value, next: None, again: None, interval: FIRST_RETRY });
    }

    /// Takes over the peer's wish as far as the rule says, and owes it a Confirm; false when the wish cannot be.
    fn follow(&mut self, value: &[u8], server: bool, mandatory: bool) -> bool {
        match self.rule {
            Rule::ServerPriority => {
                let (first, second) =
                    if server { (&self.preferences[..], value) } else { (value, &self.preferences[..]) };
                let common = first.iter().find(|value| second.contains(value)).copied();
                if value.is_empty() || (common.is_none() && mandatory) {
                    return false;
                }
                // Without a common value the one in force stays (section 6.3.1).
                self.value = common.map_or(self.value, u64::from);
                let mut confirm = vec![self.value as u8];
                confirm.extend_from_slice(&self.preferences);
                self.confirm = Some(confirm);
                if common.is_some() {
                    // The answer to this end's own wish would be the same.
                    self.change = self.change.filter(|change| change.again.is_some());
                }
                true
            }
            Rule::NonNegotiable { bytes, least, most } => {
                let new = number_of(value);
                // Only the feature's location may say what it is (section 6.3.2).
                if self.place == Place::Local || value.len() != bytes || !(least..=most).contains(&new) {
                    return false;
                }
                self.value = new;
                self.confirm = Some(value.to_vec());
                true
            }
        }
    }
}

fn number_of(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_wire::dccp::Options;

    /// Two ends that hand each other what they have to say.
    struct Pair {
        client: Features,
        server: Features,
        next: Seq,
    }

    impl Pair {
        fn new(client: &[Ccid], server: &[Ccid]) -> Self {
            let config = |ccids| DccpConfig::new().ccids(ccids).unwrap();
            let (client, server) =
                (Features::new(&config(client), false), Features::new(&config(server), true));
            Self { client, server, next: Seq::new(1) }
        }

        /// One packet from one to the other; what it made the receiver do.
        fn carry(&mut self, from_client: bool) -> Result<(), ResetCode> {
            let (from, to) = match from_client {
                true => (&mut self.client, &mut self.server),
                false => (&mut self.server, &mut self.client),
            };
            let mut options = Vec::new();
            from.emit(Time::ZERO, self.next, false, &mut options);
            let mut mandatory = false;
            for option in Options::new(&options) {
                match option {
                    DccpOption::Mandatory => mandatory = true,
                    DccpOption::Feature { negotiation, feature, value } => {
                        to.handle(self.next, Some(self.next), (negotiation, feature, value), mandatory)?;
                        mandatory = false;
                    }
                    _ => unreachable!("{option:?}"),
                }
            }
            self.next = self.next.next();
            Ok(())
        }

        fn settle(&mut self) -> Result<(), ResetCode> {
            (0..3).try_for_each(|_| self.carry(true).and_then(|()| self.carry(false)))
        }
    }

    /// RFC 4340 section 6.3.1.
    #[test]
    fn the_servers_preference_decides_among_what_the_client_accepts() {
        use Ccid::{TcpLike, Tfrc};
        let cases = [
            (&[TcpLike, Tfrc][..], &[Tfrc, TcpLike][..], Tfrc),
            (&[Tfrc, TcpLike], &[TcpLike, Tfrc], TcpLike),
            (&[Tfrc], &[TcpLike, Tfrc], Tfrc),
            (&[TcpLike], &[Tfrc, TcpLike], TcpLike),
            (&[Tfrc], &[Tfrc], Tfrc),
        ];
        for (client, server, expected) in cases {
            let mut pair = Pair::new(client, server);
            pair.settle().unwrap();
            for place in [Place::Local, Place::Remote] {
                assert_eq!(pair.client.ccid(place), Some(expected), "{client:?} {server:?}");
                assert_eq!(pair.server.ccid(place), Some(expected), "{client:?} {server:?}");
            }
            assert!(!pair.client.is_due(Time::MAX) && !pair.server.is_due(Time::MAX), "everything is said");
        }
    }

    #[test]
    fn without_a_common_profile_a_mandatory_wish_ends_the_connection() {
        let mut pair = Pair::new(&[Ccid::Tfrc], &[Ccid::TcpLike]);
        assert_eq!(pair.carry(true), Err(ResetCode::MandatoryError));
        let mut pair = Pair::new(&[Ccid::TcpLike], &[Ccid::Tfrc]);
        pair.carry(true).unwrap();
        assert_eq!(pair.carry(false), Err(ResetCode::MandatoryError));
    }

    #[test]
    fn a_value_of_its_location_is_taken_over_and_confirmed() {
        let mut pair = Pair::new(&[Ccid::TcpLike], &[Ccid::TcpLike]);
        pair.client.want(feature::SEQUENCE_WINDOW, Place::Local, 5_000);
        pair.carry(true).unwrap();
        assert_eq!(pair.server.get(feature::SEQUENCE_WINDOW, Place::Remote), 5_000);
        assert_eq!(pair.client.get(feature::SEQUENCE_WINDOW, Place::Local), 100, "not confirmed yet");
        pair.carry(false).unwrap();
        assert_eq!(pair.client.get(feature::SEQUENCE_WINDOW, Place::Local), 5_000);
    }

    #[test]
    fn a_change_is_said_again_until_it_is_confirmed() {
        let mut pair = Pair::new(&[Ccid::TcpLike], &[Ccid::TcpLike]);
        pair.client.want(feature::SEND_ACK_VECTOR, Place::Remote, 1);
        let said = |features: &mut Features, ms| {
            let mut options = Vec::new();
            features.emit(Time::ZERO + Duration::from_millis(ms), Seq::new(ms), false, &mut options);
            options
        };
        assert_eq!(said(&mut pair.client, 0), [34, 4, 6, 1]);
        assert_eq!(said(&mut pair.client, 299), Vec::<u8>::new());
        assert_eq!(said(&mut pair.client, 300), [34, 4, 6, 1]);
        assert_eq!(said(&mut pair.client, 899), Vec::<u8>::new());
        assert_eq!(said(&mut pair.client, 900), [34, 4, 6, 1]);
        // An answer to something older than the last new Change does not count (section 6.6.4)…
        let confirm = (Negotiation::ConfirmL, feature::SEND_ACK_VECTOR, &[1u8, 0, 1][..]);
        pair.client.greatest_sent = Some(Seq::new(5));
        pair.client.handle(Seq::new(1), Some(Seq::new(4)), confirm, false).unwrap();
        assert_eq!(pair.client.get(feature::SEND_ACK_VECTOR, Place::Remote), 0);
        // … and an answer to that does.
        pair.client.handle(Seq::new(2), Some(Seq::new(5)), confirm, false).unwrap();
        assert_eq!(pair.client.get(feature::SEND_ACK_VECTOR, Place::Remote), 1);
        assert_eq!(pair.client.poll_timeout(), None);
    }

    /// RFC 4340 sections 6.6.7 and 6.6.8.
    #[test]
    fn unknown_features_and_impossible_values_get_an_empty_confirm() {
        let mut server = Features::new(&DccpConfig::new().ccids(&[Ccid::TcpLike]).unwrap(), true);
        let cases: [(Negotiation, u8, &[u8]); 4] = [
            (Negotiation::ChangeL, 77, &[1]),
            (Negotiation::ChangeL, feature::SEQUENCE_WINDOW, &[0, 0, 0, 0, 0, 31]),
            (Negotiation::ChangeL, feature::ACK_RATIO, &[1]),
            (Negotiation::ChangeR, feature::ACK_RATIO, &[0, 4]),
        ];
        for case in cases {
            server.handle(Seq::new(1), None, case, false).unwrap();
        }
        let mut options = Vec::new();
        server.emit(Time::ZERO, Seq::new(1), false, &mut options);
        assert_eq!(options, [35, 3, 77, 35, 3, 3, 35, 3, 5, 33, 3, 5]);
        let refused = server.handle(Seq::new(2), None, (Negotiation::ChangeL, 77, &[1]), true);
        assert_eq!(refused, Err(ResetCode::MandatoryError));
    }

    #[test]
    fn a_wish_that_changes_waits_for_the_confirm_of_the_one_before() {
        let mut pair = Pair::new(&[Ccid::TcpLike], &[Ccid::TcpLike]);
        pair.carry(true).unwrap();
        let confirm = |value: u64, seq| {
            let bytes = value.to_be_bytes();
            let option = (Negotiation::ConfirmR, feature::SEQUENCE_WINDOW, bytes[2..].to_vec());
            (Seq::new(seq), Some(Seq::new(seq)), option)
        };
        let client = &mut pair.client;
        let (before, mut options) = (client.get(feature::SEQUENCE_WINDOW, Place::Local), Vec::new());
        client.want(feature::SEQUENCE_WINDOW, Place::Local, 200);
        client.emit(Time::ZERO, Seq::new(20), false, &mut options);
        client.want(feature::SEQUENCE_WINDOW, Place::Local, 300);
        // The value in force, said once more; then the two wishes, one by one.
        for (value, in_force) in [(before, before), (200, 200), (200, 200), (300, 300)] {
            let (seq, ack, (negotiation, number, bytes)) = confirm(value, 21 + in_force);
            client.handle(seq, ack, (negotiation, number, &bytes), false).unwrap();
            assert_eq!(client.get(feature::SEQUENCE_WINDOW, Place::Local), in_force);
            client.emit(Time::from_nanos(1), Seq::new(21), false, &mut options);
        }
        assert!(!client.is_due(Time::from_nanos(u64::MAX)));
    }

    #[test]
    fn a_confirm_with_a_value_that_was_not_offered_ends_the_connection() {
        let mut pair = Pair::new(&[Ccid::TcpLike, Ccid::Tfrc], &[Ccid::TcpLike]);
        pair.carry(true).unwrap();
        let confirm = (Negotiation::ConfirmR, feature::CCID, &[9u8][..]);
        assert_eq!(
            pair.client.handle(Seq::new(9), Some(Seq::new(9)), confirm, false),
            Err(ResetCode::OptionError)
        );
    }
}
