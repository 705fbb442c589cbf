pub mod local_directory;
