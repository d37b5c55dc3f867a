//! CPU and memory of processes, from /proc.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::fleet::Fleet;

/// In which the kernel tells CPU times to programs, on every platform that we build for.
const TICKS_PER_SECOND: u64 = 100;

/// Memory of a process, in KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident now.
    pub resident: u64,
    /// The most that ever was resident.
    pub peak: u64,
    /// Resident and not backed by a file: heap and stacks.
    pub anonymous: u64,
    /// Threads.
    pub threads: u64,
}

/// A process that is looked at twice.
#[derive(Debug, Clone)]
pub struct Watched {
    /// Its name in the fleet.
    pub name: String,
    pid: i32,
    begun: Instant,
    cpu: Duration,
}

/// What was seen in between.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// CPU, in percent of one core.
    pub cpu_percent: f64,
    /// Memory at the end.
    pub memory: Memory,
}

impl Watched {
    /// Begins to watch a process of the fleet.
    pub async fn begin(fleet: &Fleet, name: &str) -> Result<Self> {
        let processes = fleet.status().await?;
        let process = processes.iter().find(|p| p.name == name);
        let pid = process
            .and_then(|p| p.state.pid())
            .with_context(|| format!("{name} does not run"))?;
        Self::of(name, pid)
    }

    /// Begins to watch ourselves.
    pub fn begin_self() -> Result<Self> {
        Self::of("fleet-bench", i32::try_from(std::process::id())?)
    }

    /// Begins to watch any process.
    pub fn of(name: &str, pid: i32) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            pid,
            begun: Instant::now(),
            cpu: cpu(pid)?,
        })
    }

    /// What it has used since.
    pub fn end(&self) -> Result<Usage> {
        let used = cpu(self.pid)?.saturating_sub(self.cpu);
        Ok(Usage {
            cpu_percent: 100.0 * used.as_secs_f64() / self.begun.elapsed().as_secs_f64(),
            memory: memory(self.pid)?,
        })
    }
}

fn read(pid: i32, file: &str) -> Result<String> {
    std::fs::read_to_string(format!("/proc/{pid}/{file}")).with_context(|| format!("process {pid} has ended"))
}

fn memory(pid: i32) -> Result<Memory> {
    Ok(parse_memory(&read(pid, "status")?))
}

fn parse_memory(status: &str) -> Memory {
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok())
            .unwrap_or_default()
    };
    Memory {
        resident: of("VmRSS:"),
        peak: of("VmHWM:"),
        anonymous: of("RssAnon:"),
        threads: of("Threads:"),
    }
}

fn cpu(pid: i32) -> Result<Duration> {
    parse_cpu(&read(pid, "stat")?).context("/proc/<pid>/stat has another form")
}

/// utime and stime. The name before them may contain anything, also parentheses.
fn parse_cpu(stat: &str) -> Option<Duration> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis((next()? + next()?) * 1000 / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 5 0 1";
        assert_eq!(parse_cpu(stat), Some(Duration::from_secs(2)));
        let status = "Name:\tx\nVmHWM:\t    20 kB\nVmRSS:\t    10 kB\nRssAnon:\t       4 kB\nThreads:\t3\n";
        let memory = Memory {
            resident: 10,
            peak: 20,
            anonymous: 4,
            threads: 3,
        };
        assert_eq!(parse_memory(status), memory);
        let me = i32::try_from(std::process::id()).unwrap();
        assert!(cpu(me).is_ok() && super::memory(me).unwrap().resident > 0);
    }
}
