//! What a run comes to, by the percent of the cluster's GPUs that pods have asked for so far. It
//! adds up what it is told.

/// The state after the arrivals of one percent, on average over them. All in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// GPUs that are held, of all.
    pub allocated_ppm: u32,
    /// What the usual pods cannot use, of the GPUs that are idle; 0 when none is.
    pub fragmented_ppm: u32,
}

/// Points by percent arrived, from 0 on. Where no arrival is nearest to a percent, it stays as it
/// was before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve(Vec<Point>);

/// A part of a whole in thousandths of devices, or in the unit that both have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) some: u128,
    pub(super) all: u128,
}

impl Curve {
    /// The points by percent.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.0
    }

    /// The last point; `None` when nothing arrived.
    #[must_use]
    pub fn last(&self) -> Option<Point> {
        self.0.last().copied()
    }
}

/// Adds up a curve.
#[derive(Clone, Debug, Default)]
pub(super) struct Adding {
    points: Vec<Point>,
    /// Sums of the percent that arrivals are nearest to now, and how many they are.
    percent: usize,
    allocated_ppm: u64,
    fragmented_ppm: u64,
    arrivals: u64,
}

impl Adding {
    /// The state after an arrival.
    pub(super) fn arrived(&mut self, arrived: Part, allocated: Part, fragmented: Part) {
        // Rounded to the nearest percent, as the published analysis does.
        let percent = (2 * 100 * arrived.some + arrived.all) / (2 * arrived.all.max(1));
        let percent = usize::try_from(percent).unwrap_or(usize::MAX);
        if percent != self.percent {
            self.settle();
            self.percent = percent;
        }
        self.allocated_ppm += u64::from(allocated.ppm());
        self.fragmented_ppm += u64::from(fragmented.ppm());
        self.arrivals += 1;
    }

    pub(super) fn finish(mut self) -> Curve {
        self.settle();
        Curve(self.points)
    }

    /// The percent is over.
    fn settle(&mut self) {
        if self.arrivals == 0 {
            return;
        }
        let before = self.points.last().copied().unwrap_or_default();
        self.points.resize(self.percent, before);
        let mean = |sum: u64| u32::try_from(sum / self.arrivals).unwrap_or(u32::MAX);
        self.points.push(Point {
            allocated_ppm: mean(self.allocated_ppm),
            fragmented_ppm: mean(self.fragmented_ppm),
        });
        (self.allocated_ppm, self.fragmented_ppm, self.arrivals) = (0, 0, 0);
    }
}

impl Part {
    fn ppm(self) -> u32 {
        u32::try_from(self.some * 1_000_000 / self.all.max(1)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percent_is_the_mean_of_the_arrivals_nearest_to_it() {
        let mut adding = Adding::default();
        let of = |some| Part { some, all: 1000 };
        for (arrived, held, lost) in [(4, 4, 100), (14, 14, 200), (15, 14, 300), (40, 30, 500)] {
            adding.arrived(of(arrived), of(held), of(lost));
        }
        let points: Vec<(u32, u32)> = adding
            .finish()
            .points()
            .iter()
            .map(|at| (at.allocated_ppm, at.fragmented_ppm))
            .collect();
        let expected = [
            (4_000, 100_000),
            (14_000, 200_000),
            (14_000, 300_000),
            (14_000, 300_000),
            (30_000, 500_000),
        ];
        assert_eq!(points, expected, "1.4 % is nearest to 1, 1.5 to 2, and nothing came at 3");
        assert_eq!(Adding::default().finish().last(), None);
    }
}
