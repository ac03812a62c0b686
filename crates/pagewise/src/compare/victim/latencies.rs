//! How long the operations of a victim took, from its lines as they come: by our own words, or as programs that measure tell it
//! themselves (redis-benchmark, wrk, fio).

/// How long single operations of the victim took, ns; `None`: it did not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::compare) struct Suffered {
    pub(in crate::compare) half_ns: Option<u64>,
    pub(in crate::compare) p99_ns: Option<u64>,
    pub(in crate::compare) p999_ns: Option<u64>,
}

/// What the lines so far have told: of several, the last counts.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    pub(super) suffered: Suffered,
    next: Next,
}

/// What the next lines may be, besides lines that explain themselves.
#[derive(Debug, Default)]
enum Next {
    #[default]
    Anything,
    /// The names of a table's columns, whose numbers have this unit, ns.
    Columns(f64),
    /// One row of it.
    Row(Vec<Option<Column>>),
    /// Rows of comma-separated values.
    Rows(Vec<Option<Column>>),
    /// Percentiles with numbers of this unit, ns.
    Percentiles(f64),
}

#[derive(Clone, Copy, Debug)]
struct Column {
    share: Share,
    unit_ns: f64,
}

/// Of all operations.
#[derive(Clone, Copy, Debug)]
enum Share {
    Half,
    P99,
    P999,
}

impl Share {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "p50" => Some(Self::Half),
            "p99" => Some(Self::P99),
            "p999" | "p99.9" => Some(Self::P999),
            _ => None,
        }
    }

    /// `text`: a number, with as many zeros behind it as its program likes.
    fn from_percent(text: &str) -> Option<Self> {
        let percent: f64 = text.parse().ok()?;
        [(50.0, Self::Half), (99.0, Self::P99), (99.9, Self::P999)]
            .into_iter()
            .find_map(|(known, share)| ((percent - known).abs() < 1e-6).then_some(share))
    }
}

impl Latencies {
    pub(super) fn line(&mut self, line: &str) {
        self.own_words(line);
        self.percent_of_wrk(line);
        let next = std::mem::take(&mut self.next);
        self.next = begins(line).unwrap_or_else(|| self.goes_on(next, line));
    }

    fn goes_on(&mut self, next: Next, line: &str) -> Next {
        match next {
            Next::Columns(unit_ns) => {
                let column = |name| Share::from_name(name).map(|share| Column { share, unit_ns });
                Next::Row(line.split_whitespace().map(column).collect())
            }
            Next::Row(columns) => {
                self.row(&columns, &line.split_whitespace().collect::<Vec<_>>());
                Next::Anything
            }
            Next::Rows(columns) => {
                self.row(&columns, &cells(line).collect::<Vec<_>>());
                Next::Rows(columns)
            }
            Next::Percentiles(unit_ns) if line.trim_start().starts_with('|') => {
                self.row_of_fio(line, unit_ns);
                Next::Percentiles(unit_ns)
            }
            Next::Percentiles(_) | Next::Anything => Next::Anything,
        }
    }

    /// Words such as `p99_us=12.5`.
    fn own_words(&mut self, line: &str) {
        for word in line.split_whitespace() {
            let word = word.trim_end_matches([',', ';']);
            if let Some((key, value)) = word.split_once('=')
                && let Some((share, unit)) = key.rsplit_once('_')
                && let Some(share) = Share::from_name(share)
                && let Some(unit_ns) = unit_ns(unit).filter(|_| unit != "s")
            {
                self.set(share, value, unit_ns);
            }
        }
    }

    /// Of wrk's latency distribution: `     99%    2.87ms`.
    fn percent_of_wrk(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        if let (Some(percent), Some(time), None) = (words.next(), words.next(), words.next())
            && let Some(share) = percent.strip_suffix('%').and_then(Share::from_percent)
        {
            let digits = time.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
            if let Some(unit_ns) = unit_ns(&time[digits.len()..]) {
                self.set(share, digits, unit_ns);
            }
        }
    }

    /// A row counts if it has as many cells as there are columns.
    fn row(&mut self, columns: &[Option<Column>], cells: &[&str]) {
        if columns.len() == cells.len() {
            for (column, cell) in columns.iter().zip(cells) {
                if let Some(column) = column {
                    self.set(column.share, cell, column.unit_ns);
                }
            }
        }
    }

    /// `     | 99.00th=[  174], 99.50th=[  208], 99.90th=[  510],`
    fn row_of_fio(&mut self, line: &str, unit_ns: f64) {
        for cell in line.split(',') {
            if let Some((percent, time)) = cell.trim().trim_end_matches(']').split_once("th=[")
                && let Some(share) = Share::from_percent(percent.trim_start_matches(['|', ' ']))
            {
                self.set(share, time.trim(), unit_ns);
            }
        }
    }

    /// What is no time leaves what is known.
    fn set(&mut self, share: Share, value: &str, unit_ns: f64) {
        let value: Option<f64> = value.parse().ok();
        let Some(value) = value.filter(|value| value.is_finite() && *value >= 0.0) else {
            return;
        };
        let place = match share {
            Share::Half => &mut self.suffered.half_ns,
            Share::P99 => &mut self.suffered.p99_ns,
            Share::P999 => &mut self.suffered.p999_ns,
        };
        *place = Some((value * unit_ns) as u64);
    }
}

/// What comes after a line that announces it.
fn begins(line: &str) -> Option<Next> {
    if line.contains("latency summary (msec)") {
        return Some(Next::Columns(1e6));
    }
    if line.starts_with('"') && line.contains("_latency_ms\"") {
        return Some(Next::Rows(cells(line).map(column_with_unit).collect()));
    }
    percentiles_of_fio(line).map(Next::Percentiles)
}

fn unit_ns(name: &str) -> Option<f64> {
    match name {
        "ns" | "nsec" => Some(1.0),
        "us" | "usec" => Some(1e3),
        "ms" | "msec" => Some(1e6),
        "s" | "sec" => Some(1e9),
        _ => None,
    }
}

/// Of a line of comma-separated values, each in quotation marks.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|cell| cell.trim().trim_matches('"'))
}

/// `p99_latency_ms`
fn column_with_unit(name: &str) -> Option<Column> {
    let (name, unit) = name.rsplit_once('_')?;
    Some(Column {
        share: Share::from_name(name.strip_suffix("_latency")?)?,
        unit_ns: unit_ns(unit)?,
    })
}

/// The unit of fio's `    clat percentiles (usec):`, which begins them.
fn percentiles_of_fio(line: &str) -> Option<f64> {
    let line = line.trim();
    let rest = line
        .strip_prefix("clat percentiles (")
        .or_else(|| line.strip_prefix("lat percentiles ("))?;
    unit_ns(rest.strip_suffix("):")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Suffered {
        let mut latencies = Latencies::default();
        text.lines().for_each(|line| latencies.line(line));
        latencies.suffered
    }

    fn suffered(half_ns: u64, p99_ns: u64, p999_ns: impl Into<Option<u64>>) -> Suffered {
        Suffered {
            half_ns: Some(half_ns),
            p99_ns: Some(p99_ns),
            p999_ns: p999_ns.into(),
        }
    }

    #[test]
    fn own_words_are_read_in_their_units_and_others_words_passed_over() {
        let text = "ready\nreads=10 p50_us=1.5 p99_ns=900\np999_ms=2 p99_us=3";
        assert_eq!(said(text), suffered(1500, 3000, 2_000_000));
        for nothing in [
            "",
            "p99=3",
            "p99_s=3",
            "p99_us=-1",
            "p99_us=nan",
            "=",
            "_us=3",
        ] {
            assert_eq!(said(nothing), Suffered::default(), "{nothing}");
        }
    }

    #[test]
    fn what_is_no_number_leaves_what_was_told_before() {
        let text = "p50_us=1, p99_us=3; p999_us=4,\np99_us=? p999_us=";
        assert_eq!(said(text), suffered(1000, 3000, 4000));
    }

    #[test]
    fn redis_benchmark_is_understood_as_table_and_as_values() {
        let table = "\
====== GET ======
  100000 requests completed in 1.06 seconds
  50 parallel clients

Latency by percentile distribution:
0.000% <= 0.111 milliseconds (cumulative count 1)
50.000% <= 0.271 milliseconds (cumulative count 52487)

Summary:
  throughput summary: 94250.71 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.279     0.104     0.271     0.375     0.487     1.407
        1 2 3 4 5 6
";
        assert_eq!(said(table), suffered(271_000, 487_000, None));
        let values = "\
\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"
\"SET\",\"90909.09\",\"0.300\",\"0.104\",\"0.279\",\"0.375\",\"0.5\",\"1.407\"
WARNING: something else
\"GET\",\"94339.62\",\"0.279\",\"0.104\",\"0.271\",\"0.375\",\"0.487\",\"1.407\"
";
        assert_eq!(said(values), suffered(271_000, 487_000, None));
    }

    #[test]
    fn wrk_and_fio_are_understood() {
        let wrk = "\
  Latency Distribution
     50%  635.91us
     75%  712.34us
     99%    2.87ms
 99.900%    1.02s
    Thread Stats   Avg      Stdev     Max   +/- Stdev
";
        assert_eq!(said(wrk), suffered(635_910, 2_870_000, 1_020_000_000));
        let fio = "\
  read: IOPS=19.9k, BW=77.7MiB/s (81.5MB/s)(15.6MiB/201msec)
    slat percentiles (nsec):
     | 99.00th=[    1], 99.50th=[    1], 99.90th=[    1], 99.95th=[    1],
    clat percentiles (usec):
     |  1.00th=[   28], 50.00th=[   45], 60.00th=[   46],
     | 99.00th=[  174], 99.50th=[  208], 99.90th=[  510], 99.95th=[  799],
     | 99.99th=[ 1205]
   bw (  KiB/s): min=81234, max=81234
     | 99.00th=[ 9999]
";
        assert_eq!(said(fio), suffered(45_000, 174_000, 510_000));
    }
}
