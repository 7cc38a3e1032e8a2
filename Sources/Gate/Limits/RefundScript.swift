/// `GCRA.refund` as a script that runs inside Redis, beside `GCRAScript` and over its counts. `GCRA` is the oracle here
/// too.
///
///     KEYS   one for each count that was charged one
///     ARGV   when they were charged, in microseconds by the server's clock as `GCRAScript` told it, then the interval of each
///     reply  1
///
/// A count that has gone, or that is no count of ours, is left as it is: `GCRAScript` mends it when it is next asked for. A
/// count with its full burst is worth nothing and deleted; any other keeps the life that its TAT gives it.
package enum RefundScript {
    /// For faults and logs.
    package static let name = "give back"

    /// What the server gets.
    package static let source = source(clock: "local call, time = redis.call, redis.call('TIME')")

    /// The script with a line of its own for `call` and `time`, a list of the seconds and microseconds since 1970, as texts.
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
