//! The people's API: projects, resources, issues, agents, tasks, directories, daemons.
