//! A simulation of the [rules](super::rules): loads of tenants at a server with two cores, on a virtual clock. A login occupies
//! a core; statements take a fixed time. `cargo test -p docket-store simulated -- --nocapture` prints the results.

use std::collections::BTreeMap;
use std::time::Duration;

use super::rules::{PoolId, Rules, Step};

const CORES: usize = 2;
const SECONDS: u64 = 30;
const SEEDS: [u64; 3] = [1, 2, 3];
/// The time from a step of a user's work to the next one, as of a POST.
const BETWEEN_STEPS_MS: u64 = 3;
/// How long an opening counts for the limit of openings, and how long a server hangs until a request gives up, as in `pool`.
const OPENING_MS: u64 = 50;
const HANGS_MS: u64 = 3_000;
const LOOK_EVERY_MS: u64 = 5;

/// What the users of some tenants do.
#[derive(Clone, Copy)]
struct Load {
    tenants: usize,
    /// The number of users of each tenant. Each user needs one connection at a time.
    users: usize,
    from_ms: u64,
    pace: Pace,
    /// How many times a piece of work uses a connection, and for how long each time.
    steps: usize,
    takes_ms: u64,
    /// Whether the waits count for the result.
    is_measured: bool,
}

#[derive(Clone, Copy)]
enum Pace {
    /// Work comes once in each such time, at random, until the second time. Work that waits is done together.
    Every(u64, u64),
    /// Work comes this long after the user's last work has ended.
    After(u64),
    /// The tenant's server does not respond, and the user tries again and again.
    Hangs,
}

/// A save each second: its transaction and, after the POST, the transaction of its outcome.
const SAVES: Load = Load {
    tenants: 200,
    users: 1,
    from_ms: 0,
    pace: Pace::Every(1_000, u64::MAX),
    steps: 2,
    takes_ms: 5,
    is_measured: true,
};
const QUIET: Load = Load { tenants: 20, pace: Pace::Every(500, u64::MAX), ..SAVES };
/// A tenant that uses all connections that it may have.
const HOG: Load = Load {
    tenants: 1,
    users: 8,
    from_ms: 0,
    pace: Pace::After(0),
    steps: 1,
    takes_ms: 20,
    is_measured: false,
};
const BUSY: Load = Load { tenants: 6, users: 4, takes_ms: 100, is_measured: true, ..HOG };

struct Scenario {
    name: &'static str,
    places: usize,
    login_ms: u64,
    loads: &'static [Load],
    most: Outcome,
}

/// The result of a scenario, of the measured loads. In a [`Scenario`], the most that each may be.
struct Outcome {
    p99_ms: u64,
    longest_ms: u64,
    /// The longest wait, divided by the median of the tenants' longest waits.
    uneven: f64,
    /// The most uses of connections by a tenant, divided by the fewest by a tenant.
    shares: f64,
    logins: usize,
}

const fn most(p99_ms: u64, longest_ms: u64, uneven: f64, shares: f64, logins: usize) -> Outcome {
    Outcome { p99_ms, longest_ms, uneven, shares, logins }
}

/// The comment above a scenario names a rule without which the scenario exceeds its limits.
static SCENARIOS: [Scenario; 15] = [
    Scenario {
        name: "one tenant alone",
        places: 40,
        login_ms: 12,
        loads: &[Load { takes_ms: 2, is_measured: true, ..HOG }],
        most: most(1, 45, 1.1, 1.1, 8),
    },
    Scenario {
        name: "200 tenants with a place each",
        places: 260,
        login_ms: 12,
        loads: &[SAVES],
        most: most(170, 350, 2.5, 1.3, 200),
    },
    Scenario {
        name: "200 tenants with 40 places, quick logins",
        places: 40,
        login_ms: 6,
        loads: &[SAVES],
        most: most(25, 60, 3.0, 1.3, 5_800),
    },
    // The saves need about as many logins as the server can do.
    Scenario {
        name: "200 tenants with 40 places",
        places: 40,
        login_ms: 10,
        loads: &[SAVES],
        most: most(130, 250, 2.5, 1.3, 5_800),
    },
    // More than it can do. The limit of openings leaves the other connections to their tenants.
    Scenario {
        name: "200 tenants with 40 places, slow logins",
        places: 40,
        login_ms: 14,
        loads: &[SAVES],
        most: most(720, 800, 1.5, 1.8, 4_500),
    },
    // Fewest places first. The end of a visit, without which the quiet tenants wait to the end.
    Scenario {
        name: "a hog beside 20 quiet tenants with 6 places",
        places: 6,
        login_ms: 12,
        loads: &[HOG, QUIET],
        most: most(40, 220, 8.0, 1.5, 1_500),
    },
    Scenario {
        name: "a hog beside 20 quiet tenants with 10 places",
        places: 10,
        login_ms: 12,
        loads: &[Load { takes_ms: 5, ..HOG }, QUIET],
        most: most(35, 85, 4.0, 1.5, 1_500),
    },
    // Here the process reaches its limit of openings, and the tenant with the fewest places comes first.
    Scenario {
        name: "four hogs that could fill 30 places beside 20 quiet tenants",
        places: 30,
        login_ms: 12,
        loads: &[
            Load { tenants: 4, takes_ms: 10, ..HOG },
            Load { pace: Pace::Every(1_000, u64::MAX), ..QUIET },
        ],
        most: most(25, 90, 6.0, 1.5, 900),
    },
    Scenario {
        name: "20 tenants at a server that hangs beside 60 others",
        places: 40,
        login_ms: 12,
        loads: &[
            Load { tenants: 20, pace: Pace::Hangs, is_measured: false, ..SAVES },
            Load { tenants: 60, ..SAVES },
        ],
        most: most(90, 400, 9.0, 1.3, 2_200),
    },
    // Connections that nothing uses go first.
    Scenario {
        name: "10 tenants that are suspended after two seconds beside 38 others",
        places: 40,
        login_ms: 12,
        loads: &[
            Load { tenants: 10, pace: Pace::Every(500, 2_000), is_measured: false, ..SAVES },
            Load { tenants: 38, pace: Pace::Every(100, u64::MAX), steps: 1, ..SAVES },
        ],
        most: most(40, 280, 3.0, 1.3, 1_000),
    },
    // The places that are left shrink to 10.
    Scenario {
        name: "30 places held by long statements beside 20 others",
        places: 40,
        login_ms: 12,
        loads: &[Load { tenants: 30, users: 1, takes_ms: 8_000, ..HOG }, QUIET],
        most: most(35, 300, 9.0, 1.5, 1_200),
    },
    // The long patience of a tenant with places.
    Scenario {
        name: "six busy tenants with a place each and two more",
        places: 8,
        login_ms: 12,
        loads: &[BUSY],
        most: most(400, 650, 2.0, 2.5, 30),
    },
    // A tenant with two places fewer gets one.
    Scenario {
        name: "a tenant with all places before five others come",
        places: 12,
        login_ms: 12,
        loads: &[
            Load { takes_ms: 5, is_measured: true, ..HOG },
            Load { tenants: 5, takes_ms: 5, from_ms: 1_000, ..BUSY },
        ],
        most: most(25, 100, 3.0, 1.5, 40),
    },
    // A new connection stays with its tenant through the three steps.
    Scenario {
        name: "work of three steps with two places for six tenants",
        places: 2,
        login_ms: 8,
        loads: &[Load { users: 1, pace: Pace::After(50), steps: 3, takes_ms: 2, ..BUSY }],
        most: most(45, 110, 2.5, 1.3, 2_600),
    },
    // The connection that was idle longest is not the connection that is closed.
    Scenario {
        name: "six tenants in turn with five places",
        places: 5,
        login_ms: 12,
        loads: &[Load { tenants: 6, pace: Pace::Every(300, u64::MAX), steps: 1, takes_ms: 3, ..SAVES }],
        most: most(25, 40, 2.0, 1.1, 215),
    },
];

enum Event {
    /// Work of this user comes.
    Arrives(usize),
    /// The user asks for a connection.
    Asks(usize),
    Opened(usize),
    /// The server has not responded to this user.
    Failed(usize),
    OpeningEnds,
    /// The user gives back a connection that was opened then.
    Done(usize, u64),
    Look,
}

struct User {
    load: Load,
    tenant: usize,
    pool: PoolId,
    /// When the work came that waits.
    arrived: Vec<u64>,
    is_busy: bool,
    step: usize,
    asked: u64,
    waits: Vec<u64>,
    uses: usize,
    periods: u64,
}

struct Simulation {
    rules: Rules<usize, u64>,
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    last_event: u64,
    login_ms: u64,
    /// When each core becomes free.
    cores: [u64; CORES],
    users: Vec<User>,
    logins: usize,
    is_looking: bool,
    random: u64,
}

impl Simulation {
    fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut simulation = Self {
            rules: Rules::new(scenario.places),
            now: 0,
            events: BTreeMap::new(),
            last_event: 0,
            login_ms: scenario.login_ms,
            cores: [0; CORES],
            users: Vec::new(),
            logins: 0,
            is_looking: false,
            random: seed,
        };
        let mut tenant = 0;
        for load in scenario.loads {
            for _ in 0..load.tenants {
                simulation.add(*load, tenant);
                tenant += 1;
            }
        }
        simulation
    }

    /// Adds the users of a tenant.
    fn add(&mut self, load: Load, tenant: usize) {
        let pool = self.rules.new_pool();
        for _ in 0..load.users {
            let first =
                load.from_ms + if let Pace::Every(each, _) = load.pace { self.below(each) } else { 0 };
            self.at(first, Event::Arrives(self.users.len()));
            self.users.push(User {
                load,
                tenant,
                pool,
                arrived: Vec::new(),
                is_busy: false,
                step: 0,
                asked: 0,
                waits: Vec::new(),
                uses: 0,
                periods: 0,
            });
        }
    }

    /// The next random number below `end` (splitmix64).
    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    fn at(&mut self, time: u64, event: Event) {
        self.last_event += 1;
        self.events.insert((time, self.last_event), event);
    }

    fn time(&self) -> Duration {
        Duration::from_millis(self.now)
    }

    fn run(mut self) -> Outcome {
        while let Some(((time, _), event)) = self.events.pop_first()
            && time < SECONDS * 1_000
        {
            self.now = time;
            self.happens(event);
            self.settle();
        }
        self.outcome()
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrives(user) => self.arrives(user),
            Event::Asks(user) => self.asks(user),
            Event::Opened(user) => self.uses(user, self.now),
            Event::Failed(user) => {
                let User { pool, is_busy, arrived, .. } = &mut self.users[user];
                *is_busy = false;
                arrived.clear();
                self.rules.give_up_place(*pool);
                self.at(self.now, Event::Arrives(user));
            }
            Event::OpeningEnds => self.rules.opening_ended(),
            Event::Done(user, opened) => self.done(user, opened),
            Event::Look => self.is_looking = false,
        }
    }

    fn arrives(&mut self, user: usize) {
        let now = self.now;
        let User { load, arrived, is_busy, periods, .. } = &mut self.users[user];
        arrived.push(now);
        *periods += 1;
        let (periods, was_busy) = (*periods, std::mem::replace(is_busy, true));
        if let Load { from_ms, pace: Pace::Every(each, until), .. } = *load
            && now < until
        {
            let next = from_ms + periods * each + self.below(each);
            self.at(next, Event::Arrives(user));
        }
        if !was_busy {
            self.asks(user);
        }
    }

    fn asks(&mut self, user: usize) {
        self.users[user].asked = self.now;
        self.rules.ask(self.users[user].pool, user, self.time());
    }

    fn uses(&mut self, user: usize, opened: u64) {
        let now = self.now;
        let User { load, arrived, step, asked, waits, uses, .. } = &mut self.users[user];
        match *step {
            0 => waits.extend(arrived.drain(..).map(|arrived| now - arrived)),
            _ => waits.push(now - *asked),
        }
        *uses += 1;
        let until = now + load.takes_ms;
        self.at(until, Event::Done(user, opened));
    }

    fn done(&mut self, user: usize, opened: u64) {
        let time = self.time();
        let User { load, pool, arrived, is_busy, step, .. } = &mut self.users[user];
        self.rules.give_back(*pool, opened, Duration::from_millis(opened), time);
        *step += 1;
        if *step < load.steps {
            return self.at(self.now + BETWEEN_STEPS_MS, Event::Asks(user));
        }
        *step = 0;
        if !arrived.is_empty() {
            return self.asks(user);
        }
        *is_busy = false;
        if let Pace::After(pause) = load.pace {
            self.at(self.now + pause, Event::Arrives(user));
        }
    }

    fn settle(&mut self) {
        while let Some(step) = self.rules.next_step(self.time()) {
            match step {
                Step::Give { request, connection, .. } => self.uses(request, connection),
                Step::Open { request, .. } => self.opens(request),
                Step::Kept => {}
            }
        }
        if self.rules.depends_on_time() && !std::mem::replace(&mut self.is_looking, true) {
            self.at(self.now + LOOK_EVERY_MS, Event::Look);
        }
    }

    fn opens(&mut self, user: usize) {
        self.logins += 1;
        if matches!(self.users[user].load.pace, Pace::Hangs) {
            self.at(self.now + OPENING_MS, Event::OpeningEnds);
            return self.at(self.now + HANGS_MS, Event::Failed(user));
        }
        let core = self.cores.iter_mut().min().expect("there are some");
        *core = self.now.max(*core) + self.login_ms;
        let opened = *core;
        self.at(opened.min(self.now + OPENING_MS), Event::OpeningEnds);
        self.at(opened, Event::Opened(user));
    }

    fn outcome(self) -> Outcome {
        // For each tenant: the longest wait, and how often the tenant used a connection.
        let mut tenants: BTreeMap<usize, (u64, usize)> = BTreeMap::new();
        let mut waits = Vec::new();
        for user in self.users.iter().filter(|user| user.load.is_measured) {
            // A request that waits at the end has waited as well.
            let asked =
                if user.step > 0 && self.rules.is_waiting(user.pool) { Some(user.asked) } else { None };
            let unserved = user.arrived.iter().copied().chain(asked).map(|since| self.now - since);
            let own: Vec<u64> = user.waits.iter().copied().chain(unserved).collect();
            let (longest, uses) = tenants.entry(user.tenant).or_default();
            *longest = own.iter().copied().fold(*longest, u64::max);
            *uses += user.uses;
            waits.extend(own);
        }
        waits.sort_unstable();
        let mut longest: Vec<u64> = tenants.values().map(|(longest, _)| *longest).collect();
        longest.sort_unstable();
        let uses = || tenants.values().map(|(_, uses)| *uses);
        let by = |more: u64, less: u64| more as f64 / less.max(1) as f64;
        let last = longest.last().copied().unwrap_or_default();
        Outcome {
            p99_ms: waits[waits.len() * 99 / 100],
            longest_ms: last,
            uneven: by(last, longest[longest.len() / 2]),
            shares: by(uses().max().unwrap_or(0) as u64, uses().min().unwrap_or(0) as u64),
            logins: self.logins,
        }
    }
}

#[test]
fn simulated_tenants_wait_briefly_and_evenly_for_few_logins() {
    let mut missed = Vec::new();
    for scenario in &SCENARIOS {
        for seed in SEEDS {
            let Outcome { p99_ms, longest_ms, uneven, shares, logins } =
                Simulation::new(scenario, seed).run();
            let result = format!(
                "{}, seed {seed}: p99 {p99_ms} ms, longest {longest_ms} ms, {uneven:.2} of the median tenant's, \
                 shares 1 to {shares:.2}, {logins} logins",
                scenario.name
            );
            println!("{result}");
            let most = &scenario.most;
            let is_in_limits = p99_ms <= most.p99_ms
                && longest_ms <= most.longest_ms
                && uneven <= most.uneven
                && shares <= most.shares
                && logins <= most.logins;
            if !is_in_limits {
                missed.push(result);
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
