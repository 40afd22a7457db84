//! Delivery: messenger runs as pairs of pickup and delivery.

use crate::field::Rules;
use crate::list::List;
use crate::number::{Int, Money, Quantity};
use crate::parts::{Address, Case, ContactPerson, Court};
use crate::problem::{Path, Problems};
use crate::text::Text;
use crate::when::{DateTime, in_order};

choice! {
    /// What to go with.
    pub enum Vehicle { Walker, Bike, Car, Van, Truck }

    /// What proves the delivery.
    pub enum ProofOfDelivery { None, Signature, NamedSignature, Photo, IdCheck }

    /// What to do when no one accepts it.
    pub enum IfUndeliverable { ReturnToSender, LeaveAtDoor, CallContact }
}

part! {
    ruled
    /// One end of a run.
    pub struct Stop {
        /// Where.
        req address: Address,
        /// Whom to ask for.
        opt contact: ContactPerson,
        /// Not before.
        opt ready_at: DateTime,
        /// Not after.
        opt by: DateTime,
        /// Anything else.
        opt notes: Text<1000>,
    }
}

impl Rules for Stop {
    fn contradictory(&self, at: &mut Path, problems: &mut Problems) {
        let (ready, by) = (self.ready_at.as_ref(), self.by.as_ref());
        in_order(ready.map(DateTime::seconds), ("readyAt", "by"), by.map(DateTime::seconds), at, problems);
    }
}

part! {
    ruled
    /// One run.
    pub struct Leg {
        /// Where it begins.
        req pickup: Stop,
        /// Where it ends.
        req delivery: Stop,
    }
}

impl Rules for Leg {
    fn contradictory(&self, at: &mut Path, problems: &mut Problems) {
        let ready = self.pickup.as_ref().and_then(|stop| stop.ready_at.as_ref());
        let by = self.delivery.as_ref().and_then(|stop| stop.by.as_ref());
        let (ready, by) = (ready.map(DateTime::seconds), by.map(DateTime::seconds));
        at.key("pickup", |at| in_order(ready, ("readyAt", "delivery.by"), by, at, problems));
    }
}

order! {
    /// An order to carry something.
    pub struct DeliveryOrder (attorney opt, documents opt 0) {
        /// The runs, 1 to 10.
        req legs: List<Leg, 1, 10>,
        /// What is carried.
        req item_description: Text<500>,
        /// Number of pieces.
        opt pieces: Int<1, 10_000>,
        /// Weight in pounds.
        opt weight_lbs: Quantity<100_000>,
        /// What to go with.
        opt vehicle: Vehicle,
        /// Bring something back.
        opt round_trip: bool,
        /// Paid waiting allowed, in minutes.
        opt wait_minutes: Int<0, 1440>,
        /// What proves the delivery.
        def proof_of_delivery: ProofOfDelivery = ProofOfDelivery::NamedSignature,
        /// What to do when no one accepts it.
        opt if_undeliverable: IfUndeliverable,
        /// USD; for liability.
        opt declared_value: Money,
        /// Sealed; handed to the addressee only.
        opt confidential: bool,
        /// When a chambers copy goes along.
        opt court: Court,
        /// When a chambers copy goes along.
        opt case: Case,
    }
}

impl Rules for DeliveryOrder {}
