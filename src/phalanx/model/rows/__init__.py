"""What people are shown of nodes, queues, gangs and jobs: typed rows, which are mappings too."""
