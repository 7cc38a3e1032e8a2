/// The commands that run until they are told to end.
enum Serve {
    /// Runs the gateway; answers when it has drained. `loader` reads the configuration again on SIGHUP.
    static func run(_ configuration: Configuration, loader: ConfigurationLoader) -> CommandResult {
        .failed("serve is not assembled yet")
    }

    /// Runs the small upstream.
    static func echo(listen: String) -> CommandResult {
        .failed("echo is not assembled yet")
    }
}
