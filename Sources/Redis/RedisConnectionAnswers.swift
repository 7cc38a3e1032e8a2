import Transport
package import Wire

/// Replies: of the greeting, of callers' commands, and of calls whose script the server has lost.
extension RedisConnection {
    /// The next result, in order; nil if there is none now. Call it in each turn after `ready` and `timedOut`, until it
    /// returns nil.
    package mutating func next(_ now: MonotonicTime) -> RedisResult? {
        while true {
            if lost > 0 {
                if let result = nextLost() { return result }
                continue
            }
            guard isConnected else { return nil }
            switch reader.next() {
            case .complete:
                if isMessage { return RedisResult(tag: Self.messageTag, outcome: .answered) }
                if let result = answered(now) { return result }
            case .incomplete:
                guard hasInput else { return nextLate(now) }
                receive(now)
            case .broken(let reason):
                lose(.notUnderstood(reason), now)
            }
        }
    }

    private mutating func nextLost() -> RedisResult? {
        guard let command = unanswered.next else { preconditionFailure("what is lost was unanswered") }
        unanswered.removeNext()
        lost -= 1
        return command.isAwaited ? RedisResult(tag: command.tag, outcome: .lost) : lateResult(command, .lost)
    }

    /// The second result of a command that was late.
    private func lateResult(_ command: PendingCommand, _ outcome: RedisOutcome) -> RedisResult? {
        guard settings.reportsLateReplies, command.isAbandoned else { return nil }
        return RedisResult(tag: command.tag, outcome: outcome, isLate: true)
    }

    private mutating func nextLate(_ now: MonotonicTime) -> RedisResult? {
        let age = settings.replyDeadline * 1_000_000
        guard now.nanoseconds >= age else { return nil }
        guard let tag = unanswered.abandon(sentBy: MonotonicTime(nanoseconds: now.nanoseconds - age)) else { return nil }
        breaker.missed(now, random: random.next())
        return RedisResult(tag: tag, outcome: .late)
    }

    /// Handles the reply to the oldest command.
    private mutating func answered(_ now: MonotonicTime) -> RedisResult? {
        guard let command = unanswered.next, command.byteCount <= output.sent else {
            // A server that rejects a client may send an error before any command.
            lose(.notUnderstood("a reply without a command" + (reader.reply.errorText.map { ": \($0)" } ?? "")), now)
            return nil
        }
        unanswered.removeNext()
        if case .call(let script?) = command.purpose, !command.isRepeat, reader.reply.errorKind == .noScript {
            if scripts.begin(script) { appendLoad(script, now) }
            if command.isAwaited {
                sendAgain(command)
                return nil
            }
        }
        output.removeFirst(command.byteCount)
        switch command.purpose {
        case .call: return callAnswered(command, now)
        case .authenticate: greetingAnswered(.authenticate, now)
        case .selectDatabase: greetingAnswered(.selectDatabase(endpoint.database), now)
        case .loadScript(let script): scriptLoaded(script, now)
        case .subscribe: greetingAnswered(.subscribe, now)
        case .role: roleAnswered(now)
        // A refusal is repeated by the call behind it.
        case .asking: break
        }
        return nil
    }

    /// Whether the reader holds a pub/sub message instead of a reply.
    private var isMessage: Bool {
        guard subscription != nil, reader.reply.nodes.count == 4, case .array = reader.reply.nodes[0] else { return false }
        return reader.reply.bytes(1).equals("message")
    }

    private mutating func callAnswered(_ command: PendingCommand, _ now: MonotonicTime) -> RedisResult? {
        let kind = reader.reply.errorKind
        let isOutage = kind.map { countsAsOutage($0) } ?? false
        if isOutage { log.refused(reader, now) }
        // The sentinels have made it a replica: its successor must be asked for.
        if kind == .readOnly, endpoint.hasSentinels { lose(.notPrimary, now) }
        // A late reply does not show that the server is fast enough, and its caller has given up.
        guard command.isAwaited else { return lateResult(command, kind.map { .refused($0) } ?? .answered) }
        if isOutage {
            breaker.missed(now, random: random.next())
        } else {
            breaker.answered()
            log.answered(now)
        }
        return RedisResult(tag: command.tag, outcome: kind.map { .refused($0) } ?? .answered)
    }

    /// Whether the error in the reader says that the server refuses all commands.
    private func countsAsOutage(_ kind: RedisErrorKind) -> Bool {
        guard kind == .cluster, settings.isClusterNode else { return kind.isOutage }
        return RedisClusterError(reader.reply.bytes(0)) == .down
    }

    /// NOSCRIPT: sends the call again behind the script that is being loaded. Calls that fail together keep their order.
    private mutating func sendAgain(_ command: PendingCommand) {
        output.repeatFirst(command.byteCount)
        var again = command
        again.isRepeat = true
        unanswered.append(again)
        output.removeFirst(command.byteCount)
    }
}

// Greeting: AUTH, ROLE, SELECT, SCRIPT LOAD and SUBSCRIBE, sent at once and answered one by one.
extension RedisConnection {
    /// Appends the greeting's commands.
    mutating func appendGreeting(_ now: MonotonicTime) {
        if let password = endpoint.password {
            var command = RedisCommand()
            command.begin()
            command.append("AUTH")
            if let user = endpoint.user { command.append(user.rawBytes) }
            command.append(password.rawBytes)
            append(command, as: .authenticate, now)
        }
        if endpoint.hasSentinels {
            var command = RedisCommand()
            command.begin()
            command.append("ROLE")
            append(command, as: .role, now)
        }
        if endpoint.database != 0 {
            var command = RedisCommand()
            command.begin()
            command.append("SELECT")
            command.append(decimal: Int(endpoint.database))
            append(command, as: .selectDatabase, now)
        }
        for script in scripts.ids where scripts.begin(script) { appendLoad(script, now) }
        if let subscription {
            var command = RedisCommand()
            command.begin()
            command.append("SUBSCRIBE")
            command.append(subscription)
            append(command, as: .subscribe, now)
        }
    }

    private mutating func appendLoad(_ script: RedisScriptID, _ now: MonotonicTime) {
        var command = RedisCommand()
        command.begin()
        command.append("SCRIPT")
        command.append("LOAD")
        command.append { $0.append(scripts.source(script)) }
        append(command, as: .loadScript(script), now)
    }

    private mutating func append(
        _ command: borrowing RedisCommand, as purpose: PendingCommand.Purpose, _ now: MonotonicTime
    ) {
        let before = output.bytes.count
        RedisCommandFormat.append(command, to: &output.bytes)
        let byteCount = output.bytes.count - before
        unanswered.append(PendingCommand(purpose: purpose, tag: 0, sentAt: now, byteCount: byteCount))
    }

    private mutating func greetingAnswered(_ step: RedisGreetingStep, _ now: MonotonicTime) {
        if let text = reader.reply.errorText { return lose(.refused(step, text), now) }
        if state.greetingAnswered(now) == .serve { log.becameReady() }
    }

    /// A server that sentinels named serves only as the primary: a replica would take publications that no other gateway hears.
    private mutating func roleAnswered(_ now: MonotonicTime) {
        guard reader.reply.errorKind != nil || reader.reply.isPrimaryRole else { return lose(.notPrimary, now) }
        greetingAnswered(.role, now)
    }

    private mutating func scriptLoaded(_ script: RedisScriptID, _ now: MonotonicTime) {
        scripts.end(script)
        let isServing = isReady
        if let kind = reader.reply.errorKind, isServing {
            // The script's calls fail with NOSCRIPT again, which their callers get as their result.
            if kind.isOutage { log.refused(reader, now) }
            return
        }
        if reader.reply.errorKind == nil, !scripts.learn(script, from: reader) {
            return lose(.notUnderstood("SCRIPT LOAD is answered with something else than a SHA-1"), now)
        }
        if !isServing { greetingAnswered(.loadScript(scripts.name(script)), now) }
    }
}
