import Gate
/// `GCRA.refund` as a Lua script in Redis, on the counts of `GCRAScript`. `GCRA` is its oracle.
///
///     KEYS   the counts that were charged one unit each
///     ARGV   when they were charged, in microseconds as `GCRAScript` replied it, then the interval of each
///     reply  1
///
/// A key that is missing or is not a count stays as it is; `GCRAScript` repairs it on the next charge. A count that reaches
/// its full burst is deleted; any other keeps the expiry that its TAT gives it.
package enum RefundScript {
    /// Script name in log lines.
    package static let name = "give back"

    /// The source as it is loaded.
    package static let source = source(clock: "local call, time = redis.call, redis.call('TIME')")

    /// The source with `clock` as the line that sets `call` and `time`, a list of seconds and microseconds since 1970 as
    /// strings; tests pass a fixed time.
    static func source(clock: String) -> String {
        """
        \(clock)
        local pcall, format, floor = redis.pcall, string.format, math.floor
        local now = time[1] * 1000000 + time[2]
        local age = now - ARGV[1]
        if age < 0 then age = 0 end
        for i = 1, #KEYS do
          local credit = ARGV[i + 1] - age
          local tat = tonumber(pcall('GET', KEYS[i]))
          if credit > 0 and tat and tat % 1 == 0 and tat > now and tat < 2^53 then
            tat = tat - credit
            if tat > now then
              call('SET', KEYS[i], format('%.0f', tat), 'PX', format('%.0f', floor((tat - now) / 1000) + 2))
            else
              call('DEL', KEYS[i])
            end
          end
        end
        return 1
        """
    }
}
