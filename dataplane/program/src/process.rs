//! Metrics of each program about itself and its process: version, processor time, memory, files and threads, by the
//! names that Prometheus' client libraries use. Linux has these figures in `/proc`; on other systems they are left
//! out.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// The version of both programs.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns a registry without a prefix that contains the metrics of this process. `program` is the program's name.
pub fn metrics(program: &'static str) -> Registry {
    let mut registry = Registry::default();
    let build = Family::<[(&'static str, &'static str); 2], Gauge>::default();
    build.get_or_create(&[("program", program), ("version", VERSION)]).set(1);
    registry.register("docket_build_info", "1, with the program and its version", build);
    registry.register_collector(Box::new(ThisProcess { started: started() }));
    registry
}

/// The metrics of this process.
#[derive(Debug)]
struct ThisProcess {
    /// When the process started, in seconds since 1970, if that is known.
    started: Option<f64>,
}

impl Collector for ThisProcess {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let stat = own_stat();
        if let Some(stat) = &stat {
            let about = "Time that processors have worked for this process, in seconds.";
            let time = ConstCounter::new(seconds(stat.cpu_ticks));
            let metric = encoder.encode_descriptor("process_cpu_seconds", about, None, time.metric_type())?;
            time.encode(metric)?;
        }
        if let Some(open) = open_files() {
            gauge(encoder, "process_open_fds", "Files and sockets that this process has open.", open as f64)?;
        }
        if let Some(most) = getrlimit(Resource::Nofile).current {
            let about = "Files and sockets that this process may have open.";
            gauge(encoder, "process_max_fds", about, most as f64)?;
        }
        if let Some(Stat { threads, virtual_bytes, resident_pages, .. }) = stat {
            let (about, resident) =
                ("Memory that this process uses, in bytes.", resident_pages * page_size() as u64);
            gauge(encoder, "process_resident_memory_bytes", about, resident as f64)?;
            let about = "Address space that this process has, in bytes.";
            gauge(encoder, "process_virtual_memory_bytes", about, virtual_bytes as f64)?;
            gauge(encoder, "process_threads", "Threads of this process.", threads as f64)?;
        }
        if let Some(started) = self.started {
            let about = "Time when this process started, in seconds since 1970.";
            gauge(encoder, "process_start_time_seconds", about, started)?;
        }
        Ok(())
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, about: &str, value: f64) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, about, None, gauge.metric_type())?)
}

/// Figures from `/proc/self/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    /// The start of the process, in ticks since the machine started.
    started_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn read(text: &str) -> Option<Self> {
        // The program's name is in parentheses, and may itself contain blanks and parentheses.
        let (_, rest) = text.rsplit_once(") ")?;
        let rest: Vec<&str> = rest.split_ascii_whitespace().collect();
        // `number` is the field's number in proc(5), which counts from 1. `rest` begins with field 3.
        let field = |number: usize| rest.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            threads: field(20)?,
            started_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

fn own_stat() -> Option<Stat> {
    Stat::read(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// The number of open files, without the folder that is opened for counting.
fn open_files() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

/// When this process started, in seconds since 1970.
fn started() -> Option<f64> {
    let machine = boot_time(&std::fs::read_to_string("/proc/stat").ok()?)?;
    Some(machine as f64 + seconds(own_stat()?.started_ticks))
}

/// When the machine started, in seconds since 1970, from the text of `/proc/stat`.
fn boot_time(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::clock::Clock;

    #[test]
    fn fields_are_found_behind_any_name_of_a_program() {
        let fields =
            "S 1 2 3 0 -1 4194560 5 6 7 8 120 30 9 10 20 0 12 0 777 123456789 2048 18446744073709551615 1 1";
        let expected = Stat {
            cpu_ticks: 150,
            threads: 12,
            started_ticks: 777,
            virtual_bytes: 123_456_789,
            resident_pages: 2_048,
        };
        for name in ["docket", "a b", "a) S 1 (b"] {
            assert_eq!(Stat::read(&format!("4711 ({name}) {fields}\n")).as_ref(), Some(&expected), "{name}");
        }
        for broken in ["", "4711 (docket", "4711 (docket) S 1 2", "4711 (docket) S x"] {
            assert_eq!(Stat::read(broken), None, "{broken}");
        }
    }

    #[test]
    fn boot_time_is_in_seconds() {
        assert_eq!(boot_time("cpu  1 2 3\nctxt 4\nbtime 1764230400\nprocesses 5\n"), Some(1_764_230_400));
        assert_eq!(boot_time("cpu  1 2 3\n"), None);
    }

    #[test]
    fn process_says_what_it_is_and_what_it_uses() {
        let mut text = String::new();
        encode(&mut text, &metrics("docket")).expect("a String takes all");
        let build = format!("docket_build_info{{program=\"docket\",version=\"{VERSION}\"}} 1");
        assert!(text.lines().any(|line| line == build), "{text}");
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name} in:\n{text}"))
        };
        assert!(value("process_cpu_seconds_total") >= 0.0);
        // At least standard input, output and error.
        assert!((3.0..=value("process_max_fds")).contains(&value("process_open_fds")));
        let memory = value("process_resident_memory_bytes");
        assert!((1e5..=value("process_virtual_memory_bytes")).contains(&memory), "{memory}");
        assert!(value("process_threads") >= 1.0);
        // The machine's start is known to a second.
        let age = Clock::System.now_ms() as f64 / 1000.0 - value("process_start_time_seconds");
        assert!((-2.0..3_600.0).contains(&age), "{age}");
        assert_eq!(seconds(3 * clock_ticks_per_second()), 3.0);
    }
}
