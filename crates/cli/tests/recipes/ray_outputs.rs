//! Examples for Ray's libraries that end by themselves, with what they print in the end; they run on this machine and
//! on Slurm.

/// Name of each example, and its last words.
pub const OUTPUTS: [(&str, &str); 4] = [
    ("ray-core", "2 GPUs on 2 nodes; pi is about 3.1"),
    ("ray-tune", "20 trials; the best learning rate is 0.0"),
    ("ray-train", "2 workers; loss 0.04 at step 30"),
    ("ray-data", "10000 rows on 2 GPUs; the mean score is 13.5"),
];

/// Beginning of the address that the example of Ray Serve prints.
pub const SERVE_AT: &str = "2 replicas at ";

/// Program in Python that prints what an address answers.
pub const ASK: &str = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())";
