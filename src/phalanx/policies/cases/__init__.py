"""Tables of cases: files that say what each rule must answer, run against the rules themselves."""
