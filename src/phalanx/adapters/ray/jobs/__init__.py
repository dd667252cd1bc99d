"""Ray's job submission over Phalanx's own jobs: the REST API, its server and its client."""
