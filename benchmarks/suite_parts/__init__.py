"""The parts of `benchmarks/suite.py`: workloads by kind, peers, pictures, random shapes."""
