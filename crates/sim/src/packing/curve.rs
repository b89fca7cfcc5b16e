//! Curves of a run by percent of the cluster's GPUs that the arrived pods request.

/// Mean state after the arrivals of one percent, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Allocated part of all GPUs.
    pub allocated_ppm: u32,
    /// Part of the idle GPUs that typical pods cannot use; 0 if none is idle.
    pub fragmented_ppm: u32,
}

/// Points by percent of requested GPUs, from 0 on. A percent without arrivals repeats the point
/// before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve(Vec<Point>);

/// A part of a whole, both in the same unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fraction {
    pub(super) some: u128,
    pub(super) all: u128,
}

impl Curve {
    /// Returns the points by percent.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.0
    }

    /// Returns the last point; `None` if nothing arrived.
    #[must_use]
    pub fn last(&self) -> Option<Point> {
        self.0.last().copied()
    }
}

/// Builder of a curve.
#[derive(Clone, Debug, Default)]
pub(super) struct Adding {
    points: Vec<Point>,
    /// Current percent, sums over its arrivals, and their number.
    percent: usize,
    allocated_ppm: u64,
    fragmented_ppm: u64,
    arrivals: u64,
}

impl Adding {
    /// Adds the state after an arrival.
    pub(super) fn arrived(&mut self, arrived: Fraction, allocated: Fraction, fragmented: Fraction) {
        // Rounded to the nearest percent, as the published analysis does.
        let percent = (2 * 100 * arrived.some + arrived.all) / (2 * arrived.all.max(1));
        let percent = usize::try_from(percent).unwrap_or(usize::MAX);
        if percent != self.percent {
            self.finish_percent();
            self.percent = percent;
        }
        self.allocated_ppm += u64::from(allocated.ppm());
        self.fragmented_ppm += u64::from(fragmented.ppm());
        self.arrivals += 1;
    }

    pub(super) fn finish(mut self) -> Curve {
        self.finish_percent();
        Curve(self.points)
    }

    /// Finishes the current percent.
    fn finish_percent(&mut self) {
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

impl Fraction {
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
        let of = |some| Fraction { some, all: 1000 };
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
