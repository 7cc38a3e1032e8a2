import FilterReference
import Testing
import Wire

@testable import Gate

/// Output for a caller of the second of three tiers.
@Suite struct JSONFilterTests {
    static let tiers = try! TierList(["free", "plus", "premium"])

    static func plan(_ paths: [String], _ unlabelled: UnlabelledRule = .byForm) throws -> FilterPlan {
        FilterPlan(
            try paths.map { try FilterPath(parsing: $0) }, tiers: tiers, isStrict: false, unlabelled: unlabelled, isShadow: false)
    }

    /// Output of a text that arrives in pieces cut at `cuts`, up to a fault.
    struct Run {
        var out: [UInt8] = []
        var fault: FilterFault?
        var counts = FilterCounts()
        var mostPending = 0

        init(_ plan: FilterPlan, _ text: [UInt8], cuts: [Int] = [], tier: Int = 1, isLines: Bool = false, isError: Bool = false) {
            var filter = JSONFilter()
            filter.begin(plan, tier: Tier(rawValue: UInt8(tier)), isLines: isLines, toleratesAnyRoot: isError)
            do throws(FilterFault) {
                var start = 0
                for end in cuts + [text.count] {
                    try filter.feed(Array(text[start..<end]).rawBytes)
                    start = end
                    take(&filter)
                }
                try filter.finish()
                take(&filter)
            } catch {
                fault = error
            }
            counts = filter.counts
        }

        private mutating func take(_ filter: inout JSONFilter) {
            // In an empty buffer, or behind a byte.
            let other = out.count % 2
            var ready = ByteBuffer()
            if other == 1 { ready.append(0) }
            filter.handOn(to: &ready)
            out += ready.readable.dropping(other).array
            mostPending = max(mostPending, filter.pending.count)
        }

        var text: String { String(decoding: out, as: UTF8.self) }
    }

    // MARK: elements and members

    @Test(arguments: [
        // Nothing to remove: identical bytes.
        (#" [ 1 , "tier" , { "tier" : "free" , "x" : [ ] } ] "#, #" [ 1 , "tier" , { "tier" : "free" , "x" : [ ] } ] "#),
        ("", ""), (" \n", " \n"), ("null", "null"), ("-12.5e3", "-12.5e3"), (#""premium""#, #""premium""#), ("{}", "{}"),
        // An element leaves with its comma, the first with the one behind it.
        (#"[{"tier":"premium"}]"#, "[]"), (#"[{"tier":"premium"},1]"#, "[1]"), (#"[1,{"tier":"premium"}]"#, "[1]"),
        (#"[1,{"tier":"premium"},2]"#, "[1,2]"), (#"[{"tier":"premium"},{"tier":"premium"},1]"#, "[1]"),
        (#"[ {"tier":"premium"} , {"tier":"premium"} ]"#, "[ ]"), (#"[1, {"tier":"premium"}, {"tier":"premium"}, 2]"#, "[1, 2]"),
        // A member leaves with its name.
        (#"{"a":{"tier":"premium"}}"#, "{}"), (#"{"a":1,"b":{"tier":"premium"}}"#, #"{"a":1}"#),
        (#"{"a":{"tier":"premium"},"b":1}"#, #"{"b":1}"#), (#"{"a":1,"b":{"tier":"premium"},"c":2}"#, #"{"a":1,"c":2}"#),
        // Visible tiers, in any position.
        (#"[{"x":1,"tier":"plus"},{"tier":"free","x":1}]"#, #"[{"x":1,"tier":"plus"},{"tier":"free","x":1}]"#),
        (#"[{"x":{"y":[1,2]},"tier":"premium"}]"#, "[]"),
        // An unknown tier is above all.
        (#"[{"tier":null}]"#, "[]"), (#"[{"tier":1}]"#, "[]"), (#"[{"tier":true}]"#, "[]"), (#"[{"tier":"gold"}]"#, "[]"),
        (#"[{"tier":["free"]}]"#, "[]"), (#"[{"tier":{"tier":"free"}}]"#, "[]"), (#"[{"tier":""}]"#, "[]"), (#"[{"tier":"Free"}]"#, "[]"),
        // Names and tiers in other spellings.
        (#"[{"ti\u0065r":"premium"}]"#, "[]"), (#"[{"\u0074\u0069\u0065\u0072":"premium"}]"#, "[]"),
        (#"[{"tier":"fr\u0065e"}]"#, #"[{"tier":"fr\u0065e"}]"#),
        (#"[{"Tier":"premium"}]"#, #"[{"Tier":"premium"}]"#),
        // Twice: the strictest counts.
        (#"[{"tier":"free","tier":"premium"}]"#, "[]"), (#"[{"tier":"premium","tier":"free"}]"#, "[]"),
        (#"[{"tier":"free","x":{"tier":"premium"},"ti\u0065r":"premium"},1]"#, "[1]"),
        // One inside the other.
        (#"[{"tier":"free","x":{"tier":"premium"}}]"#, #"[{"tier":"free"}]"#), (#"[{"x":{"tier":"free"},"tier":"premium"}]"#, "[]"),
        (#"[{"x":[{"tier":"premium"},{"tier":"free"}],"tier":"free"}]"#, #"[{"x":[{"tier":"free"}],"tier":"free"}]"#),
        // Without a tier.
        (#"[{"x":1},{}]"#, #"[{"x":1},{}]"#),
    ])
    func elementsAboveTheCallersTierAreRemoved(_ text: String, _ expected: String) throws {
        let plan = try Self.plan(["tier"])
        let bytes = Array(text.utf8)
        for cuts in [[], Array(0..<bytes.count)] + (0..<bytes.count).map({ [$0] }) {
            let run = Run(plan, bytes, cuts: cuts)
            #expect(run.fault == nil)
            #expect(run.text == expected, "\(text) cut at \(cuts)")
        }
    }

    @Test(arguments: [
        (
            ["results[].tier"], #"{"results":[{"tier":"free"},{"tier":"premium"},{},1,null,[{"tier":"free"}]]}"#,
            #"{"results":[{"tier":"free"}]}"#
        ),
        (
            ["results[].tier"], #"{"count":1,"r\u0065sults":[{"tier":"premium"}],"other":[{"tier":"premium"}]}"#,
            #"{"count":1,"r\u0065sults":[],"other":[{"tier":"premium"}]}"#
        ),
        (["results[].tier"], #"{"data":{"results":[{"tier":"premium"}]}}"#, #"{"data":{"results":[{"tier":"premium"}]}}"#),
        (["results[].tier"], #"{"results":{"tier":"free"},"x":1}"#, #"{"x":1}"#), (["results[].tier"], #"{"results":"all of it"}"#, "{}"),
        (["results[].tier"], #"{"results":null}"#, #"{"results":null}"#),
        (["results[].tier"], #"{"tier":"premium"}"#, #"{"tier":"premium"}"#),
        (["results[].tier"], #"{"results":[1],"results":[{"tier":"premium"}]}"#, #"{"results":[],"results":[]}"#),
        (
            ["data.results[].tier"], #"{"data":{"results":[{"tier":"premium"},{"tier":"plus"}]},"results":[1]}"#,
            #"{"data":{"results":[{"tier":"plus"}]},"results":[1]}"#
        ),
        (
            ["a[].b[].tier"], #"{"a":[{"b":[{"tier":"premium"}]},2,{"b":[{"tier":"free"}]}]}"#,
            #"{"a":[{"b":[]},2,{"b":[{"tier":"free"}]}]}"#
        ),
        // An array where the path continues with a name does not match.
        (["data.results[].tier"], #"{"data":[{"results":[{"tier":"free"}]}],"x":1}"#, #"{"x":1}"#),
        (["data.results[].tier"], #"{"data":null}"#, #"{"data":null}"#),
        (["a[].b[].tier"], #"{"a":[[{"tier":"premium"}],{"b":[{"tier":"free"}]},[]]}"#, #"{"a":[{"b":[{"tier":"free"}]}]}"#),
        (["data.results[].tier"], #"{"data":{"x":[{"tier":"premium"}]}}"#, #"{"data":{"x":[{"tier":"premium"}]}}"#),
        (
            ["results[].meta.tier"], #"{"results":[{"meta":{"tier":"free"}},{"meta":{"tier":"premium"}},{"tier":"free"},{"meta":{}}]}"#,
            #"{"results":[{"meta":{"tier":"free"}}]}"#
        ),
        (["[].tier"], #"[{"tier":"free"},{"tier":"premium"},{}]"#, #"[{"tier":"free"}]"#),
        (["[][].tier"], #"[[{"tier":"free"}],[{"tier":"premium"}],{},null,1]"#, #"[[{"tier":"free"}],[],null]"#),
        (
            ["results[].tier", "items[].level"], #"{"results":[{"tier":"premium"}],"items":[{"level":"free"},{"level":"premium"}]}"#,
            #"{"results":[],"items":[{"level":"free"}]}"#
        ),
        (
            ["tier", "results[].tier"], #"{"results":[{},{"tier":"free","x":{"tier":"premium"}}],"y":{"tier":"premium"}}"#,
            #"{"results":[{"tier":"free"}]}"#
        ),
        (
            ["tier", "access"],
            #"[{"tier":"free","access":"premium"},{"tier":"premium","access":"free"},{"tier":"free","access":"free"},{"access":"plus"}]"#,
            #"[{"tier":"free","access":"free"},{"access":"plus"}]"#
        ),
    ])
    func aPathNamesTheArrayWhoseElementsAreJudged(_ paths: [String], _ text: String, _ expected: String) throws {
        let plan = try Self.plan(paths)
        let bytes = Array(text.utf8)
        for cuts in [[], Array(0..<bytes.count)] + (0..<bytes.count).map({ [$0] }) {
            let run = Run(plan, bytes, cuts: cuts)
            #expect(run.fault == nil)
            #expect(run.text == expected, "\(text) cut at \(cuts)")
        }
    }

    @Test func elementsWithoutTheFieldLeaveWhereItIsRequired() throws {
        let text = Array(#"{"a":[{"x":1},{"tier":"free"},2],"b":{"x":1},"c":[]}"#.utf8)
        let run = Run(try Self.plan(["tier"], .drop), text)
        #expect(run.text == #"{"a":[{"tier":"free"},2],"b":{"x":1},"c":[]}"#)
        #expect(run.counts == FilterCounts(kept: 1, dropped: 1, unlabelled: 1, droppedUnlabelled: 1))
    }

    @Test(arguments: [
        (["tier"], UnlabelledRule.keep, 0, #"[{"x":1},{"tier":"free"}]"#), (["tier"], .drop, 2, #"[{"tier":"free"}]"#),
        (["tier"], .tier(Tier(rawValue: 1)), 0, #"[{"tier":"free"}]"#),
        (["tier"], .tier(Tier(rawValue: 1)), 1, #"[{"x":1},{"tier":"free"}]"#),
        (["tier"], .tier(Tier(rawValue: 1)), 2, #"[{"x":1},{"tier":"free"}]"#), (["[].tier"], .byForm, 2, #"[{"tier":"free"}]"#),
        (["[].tier"], .keep, 0, #"[{"x":1},{"tier":"free"}]"#), (["[].tier"], .tier(.lowest), 0, #"[{"x":1},{"tier":"free"}]"#),
        (["[].tier"], .tier(Tier(rawValue: 2)), 1, #"[{"tier":"free"}]"#),
    ])
    func anElementWithoutTheFieldCountsAsTheRouteSays(_ paths: [String], _ rule: UnlabelledRule, _ tier: Int, _ expected: String) throws {
        let text = Array(#"[{"x":1},{"tier":"free"}]"#.utf8)
        for cuts in [[], Array(0..<text.count)] { #expect(Run(try Self.plan(paths, rule), text, cuts: cuts, tier: tier).text == expected) }
    }

    /// `filter-unlabelled=plus` for callers of the lowest tier: an item without a label is refused, a list of items is not.
    @Test(arguments: [
        (["tier"], #"{"id":2,"title":"x"}"#, nil), (["tier"], "{}", nil),
        (["tier"], #"{"id":2,"tier":"free"}"#, #"{"id":2,"tier":"free"}"#),
        (["tier"], #"{"id":2,"tags":["a"],"more":{"list":[{"tier":"free"}]}}"#, nil),
        (["tier"], #"{"count":0,"results":[]}"#, #"{"count":0,"results":[]}"#),
        (["tier"], #"{"count":0,"results":[ ] }"#, #"{"count":0,"results":[ ] }"#), (["tier"], #"{"results":[[]]}"#, nil),
        // Also where so much follows that the scanner takes its fast path.
        (["tier"], #"{"results":[],"count":0,"next":null,"previous":null}"#, #"{"results":[],"count":0,"next":null,"previous":null}"#),
        (["tier"], #"{"id":1,"results": [],"text":"and some more text"}"#, #"{"id":1,"results": [],"text":"and some more text"}"#),
        (["tier"], #"{"count":1,"results":[{"id":2}]}"#, #"{"count":1,"results":[]}"#), (["tier"], #""text""#, #""text""#),
        (["tier"], #"{"results":["a",{"tier":"free"}]}"#, #"{"results":["a",{"tier":"free"}]}"#),
        // A path says which array makes a list.
        (["tier", "results[].tier"], #"{"id":2,"words":[{"tier":"free"}]}"#, nil),
        (["tier", "results[].tier"], #"{"results":[{"id":2}],"count":1}"#, #"{"results":[],"count":1}"#),
        (["tier", "data.results[].tier"], #"{"data":{"results":[]}}"#, #"{"data":{"results":[]}}"#),
        (["tier", "data.results[].tier"], #"{"data":{"results":[],"tier":"plus"}}"#, nil),
    ])
    func aRootWithoutALabelIsRefusedUnlessItIsAList(_ paths: [String], _ document: String, _ expected: String?) throws {
        let text = Array(document.utf8)
        let plan = try Self.plan(paths, .tier(Tier(rawValue: 1)))
        for cuts in [[], Array(0..<text.count)] {
            let run = Run(plan, text, cuts: cuts, tier: 0)
            #expect(run.fault == (expected == nil ? .aboveTier : nil))
            if let expected { #expect(run.text == expected) } else { #expect(run.out.isEmpty) }
            #expect(Run(plan, text, cuts: cuts, tier: 1).text == document)
            // The upstream's own errors have no label.
            #expect(Run(plan, text, cuts: cuts, tier: 0, isError: true).fault == nil)
        }
    }

    @Test func anElementThatIsNoObjectHasNoLabelAndAnArrayInItsPlaceNeverPasses() throws {
        let text = Array(#"[1,[{"tier":"premium"}],"a",null,{"tier":"free"}]"#.utf8)
        let kept = Run(try Self.plan(["[].tier"], .keep), text)
        #expect(kept.text == #"[1,"a",null,{"tier":"free"}]"#)
        #expect(kept.counts == FilterCounts(kept: 4, dropped: 1, unlabelled: 4, droppedUnlabelled: 1))
        #expect(Run(try Self.plan(["[].tier"]), text).text == #"[{"tier":"free"}]"#)
    }

    @Test func elementsAreCounted() throws {
        let text = Array(#"{"results":[{"tier":"free"},{"tier":"premium","x":[{"tier":"free"}]},{"x":1}],"y":{"tier":"plus"},"z":{}}"#.utf8)
        #expect(Run(try Self.plan(["tier"]), text).counts == FilterCounts(kept: 3, dropped: 1, unlabelled: 1))
        #expect(
            Run(try Self.plan(["results[].tier"]), text).counts == FilterCounts(kept: 1, dropped: 2, unlabelled: 1, droppedUnlabelled: 1))
    }

    @Test(arguments: [0, 1, 2]) func aTierSeesWhatIsBelowIt(_ tier: Int) throws {
        let text = Array(#"[{"tier":"free"},{"tier":"plus"},{"tier":"premium"}]"#.utf8)
        #expect(Run(try Self.plan(["tier"]), text, tier: tier).counts == FilterCounts(kept: UInt32(tier + 1), dropped: UInt32(2 - tier)))
    }

    /// `filter-unlabelled=plus`: nothing of a long root object goes out before its label, or its array, is known.
    @Test func aLongRootWithoutALabelDoesNotLeak() throws {
        let plan = try Self.plan(["tier"], .tier(Tier(rawValue: 1)))
        let long = String(repeating: "x", count: JSONFilter.maxHeld)
        func run(_ document: String, tier: Int = 0) -> Run {
            let text = Array(document.utf8)
            return Run(plan, text, cuts: Array(stride(from: 1_000, to: text.count, by: 10_000)), tier: tier)
        }
        // The removed element is not held, so the root could be released.
        let secret = #"{"secret":"s","parts":{"list":[{"tier":"plus","text":"\#(long)"},1]},"more":"\#(long.prefix(90_000))"}"#
        for document in [secret, #"{"text":"\#(long)","more":"\#(long)"}"#] {
            let refused = run(document)
            #expect(refused.fault == .tooLarge && refused.out.isEmpty)
        }
        let labelled = #"{"tier":"free","text":"\#(long)","more":"\#(long)"}"#
        #expect(run(labelled).text == labelled)
    }

    // MARK: the root

    @Test func aRootObjectAboveTheTierIsNoAnswer() throws {
        let plan = try Self.plan(["tier"])
        for text in [
            #"{"tier":"premium","x":1}"#, #" {"x":{"y":[1]},"tier":"premium"}"#, #"{"tier":null}"#, #"{"x":[{"tier":"free"}],"tier":[]}"#,
        ] {
            let bytes = Array(text.utf8)
            for cuts in [[], Array(0..<bytes.count)] + (0..<bytes.count).map({ [$0] }) {
                let run = Run(plan, bytes, cuts: cuts)
                #expect(run.fault == .aboveTier)
                let isBlank = run.text.allSatisfy { $0.isWhitespace }
                #expect(isBlank)
            }
        }
    }

    @Test func aRootObjectIsReleasedWhenItsTierIsKnown() throws {
        var filter = JSONFilter()
        filter.begin(try Self.plan(["tier"]), tier: .lowest)
        try filter.feed(#"{"x":1,"#.utf8Bytes.rawBytes)
        let isHeld = filter.output.byteCount == 0
        #expect(isHeld)
        try filter.feed(#""tier":"free","y":"and so "#.utf8Bytes.rawBytes)
        do {
            let shown = filter.output.text
            #expect(shown == #"{"x":1,"tier":"free","y":"and so "#)
        }
        let count = filter.output.byteCount
        filter.handOn(count)
        do throws(FilterFault) {
            try filter.feed(#"on","tier":"premium"}"#.utf8Bytes.rawBytes)
            Issue.record("a second tier was not seen")
        } catch {
            #expect(error == .aboveTier)
        }
    }

    @Test func aRootObjectWithoutTierIsReleasedAfterOneMebibyte() throws {
        let member = #","m":"\#(String(repeating: "x", count: 1_000))""#
        var text = Array((#"{"a":1"# + String(repeating: member, count: 1_500)).utf8)
        var filter = JSONFilter()
        filter.begin(try Self.plan(["tier"]), tier: .lowest)
        try filter.feed(text.rawBytes)
        do {
            let shown = filter.output.byteCount
            #expect(shown == text.count)
        }
        text = Array(#"{"a":1}"#.utf8)
        #expect(Run(try Self.plan(["tier"]), text).text == #"{"a":1}"#)
    }

    @Test func anObjectIsNoList() throws {
        let text = #"{"detail":"Not found."}"#.utf8Bytes
        #expect(Run(try Self.plan(["[].tier"]), text).fault == .noList)
        var filter = JSONFilter()
        filter.begin(try Self.plan(["[].tier"]), tier: .lowest, toleratesAnyRoot: true)
        try filter.feed(text.rawBytes)
        try filter.finish()
        do {
            let shown = filter.output.text
            #expect(shown == #"{"detail":"Not found."}"#)
        }
    }

    @Test func anArrayIsNoObjectWithResults() throws {
        for path in ["results[].tier", "data.results[].tier"] {
            let plan = try Self.plan([path])
            for text in [#"[{"tier":"premium"}]"#, " [ ] ", #"[[{"results":[]}]]"#] {
                let bytes = Array(text.utf8)
                for cuts in [[], Array(0..<bytes.count)] {
                    let run = Run(plan, bytes, cuts: cuts)
                    #expect(run.fault == .noList)
                    let isBlank = run.text.allSatisfy { $0.isWhitespace }
                    #expect(isBlank)
                }
            }
            // Errors are usually objects or strings; a list could be any list.
            var filter = JSONFilter()
            filter.begin(plan, tier: .lowest, toleratesAnyRoot: true)
            #expect(throws: FilterFault.noList) { try filter.feed(#"[{"tier":"premium"}]"#.utf8Bytes.rawBytes) }
        }
    }

    @Test func aUsedFilterIsLikeANewOne() throws {
        let plan = try Self.plan(["tier"])
        var filter = JSONFilter()
        for (text, expected) in [
            (#"[{"tier":"premium"},1]"#, "[1]"), (#"[{"tier":"free"},{"x"#, nil), (#"{"a":{"tier":"gold"}}"#, "{}"), ("", ""),
        ] {
            filter.begin(plan, tier: .lowest)
            do {
                let shown = filter.output.byteCount
                #expect(shown == 0)
            }
            try filter.feed(text.utf8Bytes.rawBytes)
            guard let expected else { continue }
            try filter.finish()
            do {
                let shown = filter.output.text
                #expect(shown == expected)
            }
            filter.end()
        }
    }

    // MARK: lines

    @Test(arguments: [
        ("{\"tier\":\"free\"}\n{\"tier\":\"premium\"}\n{\"x\":1}\n", "{\"tier\":\"free\"}\n{\"x\":1}\n"),
        ("{\"tier\":\"premium\"}\n{\"tier\":\"free\"}", "{\"tier\":\"free\"}"), ("{\"tier\":\"premium\"}\n", ""),
        ("\n1\r\n[{\"tier\":\"premium\"}]\n\n", "\n1\r\n[]\n\n"), ("", ""), ("{\"x\":{\"tier\":\"premium\"}}\n12", "{}\n12"),
    ])
    func linesAreFilteredOneByOne(_ text: String, _ expected: String) throws {
        let plan = try Self.plan(["tier"])
        let bytes = Array(text.utf8)
        for cuts in [[], Array(0..<bytes.count)] + (0..<bytes.count).map({ [$0] }) {
            let run = Run(plan, bytes, cuts: cuts, isLines: true)
            #expect(run.fault == nil)
            #expect(run.text == expected)
        }
    }

    @Test func aLineThatIsAnArrayLeavesWhereAPathBeginsWithAName() throws {
        let text = "[{\"tier\":\"premium\"}]\n{\"results\":[{\"tier\":\"premium\"}]}\n[1]\n"
        #expect(Run(try Self.plan(["results[].tier"]), Array(text.utf8), isLines: true).text == "{\"results\":[]}\n")
    }

    @Test(arguments: ["{\n}", "[1,\n2]", "1 2", "{} {}\n", "{\"a\":1"]) func aLineHoldsOneText(_ text: String) throws {
        #expect(Run(try Self.plan(["tier"]), Array(text.utf8), isLines: true).fault != nil)
    }

    // MARK: bounds

    @Test func heldBytesAreBounded() throws {
        let long = String(repeating: "x", count: JSONFilter.maxHeld)
        let large = Array(#"[1,{"x":"\#(long)","tier":"free"}]"#.utf8)
        let cuts = Array(stride(from: 10_000, to: large.count, by: 10_000))
        for cuts in [[], cuts] { #expect(Run(try Self.plan(["tier"]), large, cuts: cuts).fault == .tooLarge) }
        let within = Array(#"[1,{"x":"\#(long.dropLast(100))","tier":"free"}]"#.utf8)
        #expect(Run(try Self.plan(["tier"]), within, cuts: cuts.dropLast()).out == within)
        // A unit that is being removed is not held.
        let above = Array(#"[1,{"tier":"premium","x":"\#(long)"},2]"#.utf8)
        let run = Run(try Self.plan(["tier"]), above, cuts: cuts)
        #expect(run.text == "[1,2]")
        #expect(run.mostPending < 20_000)
        // White space between elements is held as well.
        let blank = Array("[1,\(String(repeating: " ", count: JSONFilter.maxHeld + 30_000))2]".utf8)
        #expect(Run(try Self.plan(["tier"]), blank, cuts: cuts + [blank.count - 10]).fault == .tooLarge)
    }

    @Test func aLongTextOutsideOfElementsStreams() throws {
        let text = Array(#"{"x":"\#(String(repeating: "é", count: 1 << 20))","results":[]}"#.utf8)
        let run = Run(try Self.plan(["results[].tier"]), text, cuts: Array(stride(from: 9_999, to: text.count, by: 9_999)))
        #expect(run.out == text)
        #expect(run.mostPending < 100)
    }

    @Test(arguments: [
        #"{"a":}"#, "[1,]", #"[{"tier":"free"}"#, "nul", "[1]]", "{} {}", "\u{FEFF}{}", #"{"\ud800":"a"}"#, #"{"ti\ud83der":"free"}"#,
        "[01]", "[\"\u{1}\"]", #"{"a":1"#, "[1}",
    ])
    func brokenJSONGoesNoFurther(_ text: String) throws {
        let plan = try Self.plan(["tier"])
        let bytes = Array(text.utf8)
        for cuts in [[], Array(0..<bytes.count)] {
            guard case .broken = Run(plan, bytes, cuts: cuts).fault else {
                Issue.record("\(text) went on")
                continue
            }
        }
    }

    @Test func anyEntityTagComesBackAsTheUpstreamKnowsIt() throws {
        let plan = try Self.plan(["tier"])
        for tag in ["\"a\"", "W/\"a\"", "\"a~w\"", "W/\"a~w\"", "\"a~s\"", "W/\"a~s\"", "\"~w~s\"", "\"\"", "\"~w\"", "W/\"\""] {
            var written = ByteBuffer(), restored = ByteBuffer(), other = ByteBuffer()
            plan.write(Array(tag.utf8).rawBytes, for: .lowest, into: &written)
            let isRestored = plan.restore(written.readable, for: .lowest, keepsOthers: false, into: &restored)
            let isOther = plan.restore(written.readable, for: Tier(rawValue: 1), keepsOthers: false, into: &other)
            let (there, back) = (written.readable.text, restored.readable.text)
            #expect(isRestored && back == tag && !isOther, "\(tag) became \(there), then \(back)")
        }
    }

    /// `JSON.stringify` writes such escapes for strings that were cut inside an emoji.
    @Test func halfASurrogatePairPassesOutsideOfNamesAndTheTier() throws {
        let plan = try Self.plan(["tier"])
        let cases = [
            (
                #"[{"tier":"free","a":"x\ud83d"},"\ude42",{"a":"\ud83d\n\ud83d\u0041"}]"#,
                #"[{"tier":"free","a":"x\ud83d"},"\ude42",{"a":"\ud83d\n\ud83d\u0041"}]"#
            ),
            (#"[{"tier":"free\ud83d"},{"tier":"free"},{"a":"\ud83d","tier":"premium"}]"#, #"[{"tier":"free"}]"#),
            (#"[1,{"tier":"\ud83d"}]"#, "[1]"),
        ]
        for (text, filtered) in cases {
            let bytes = Array(text.utf8)
            for cuts in [[], Array(0..<bytes.count)] + (0..<bytes.count).map({ [$0] }) {
                let run = Run(plan, bytes, cuts: cuts)
                if run.fault != nil || run.text != filtered { Issue.record("\(text) cut at \(cuts) is \(run.text)") }
            }
        }
    }

    @Test func textsAreFollowedToADepthOf128() throws {
        let plan = try Self.plan(["tier"])
        for (open, close) in [("[", "]"), (#"{"a":"#, "}")] {
            let inner = open == "[" ? "" : "1"
            let within = String(repeating: open, count: 128) + inner + String(repeating: close, count: 128)
            #expect(Run(plan, Array(within.utf8)).text == within)
            #expect(Run(plan, Array((open + within + close).utf8)).fault == .broken(.tooDeep))
        }
        // Also in members that no filter looks for.
        for (depth, fault) in [(127, nil), (128, FilterFault.broken(.tooDeep))] {
            let member = #"{"x":1,"tags":["a",2],"text":"and so much text that nothing ends here"}"#
            let text = String(repeating: "[", count: depth - 1) + member + String(repeating: "]", count: depth - 1)
            #expect(Run(plan, Array(text.utf8)).fault == fault)
        }
    }
}

extension String {
    fileprivate var utf8Bytes: [UInt8] { Array(utf8) }
}

/// Against another implementation, over random documents.
@Suite struct FilterDifferentialTests {
    private static let routes: [([String], UnlabelledRule)] = [
        (["tier"], .byForm), (["tier"], .drop), (["results[].tier"], .byForm), (["results[].tier", "data.items[].tier"], .byForm),
        (["tier", "results[].tier"], .byForm), (["results[].items[].tier"], .byForm), (["[].tier"], .byForm),
        (["results[].data.tier"], .byForm), (["results[][].tier", "results[].tier"], .byForm),
        // The caller has the tier 1.
        (["results[].tier"], .keep), (["tier", "results[].tier"], .keep), (["results[].tier"], .tier(Tier(rawValue: 2))),
        (["tier"], .tier(Tier(rawValue: 2))), (["tier", "results[].items[].tier"], .tier(Tier(rawValue: 1))),
        (["tier", "data.items[].tier"], .tier(Tier(rawValue: 2))),
    ]

    @Test(arguments: 0..<15) func theOutputIsThatOfTheReference(_ route: Int) throws {
        let (texts, unlabelled) = Self.routes[route]
        let plan = try JSONFilterTests.plan(texts, unlabelled)
        let reference = ReferenceFilter(paths: texts, tiers: JSONFilterTests.tiers.names, tier: 1, unlabelled: unlabelled)
        for seed in 0..<40 {
            var documents = FilterDocuments(random: SplitMix64(seed: UInt64(route * 1_000 + seed)), allowed: ["free", "plus"])
            let text = documents.next()
            let expected = try #require(reference.filter(text))
            for cuts in [[], Array(0..<text.count)] + stride(from: 0, to: text.count, by: seed % 8 == 0 ? 1 : 29).map({ [$0] }) {
                let run = JSONFilterTests.Run(plan, text, cuts: cuts)
                switch expected {
                case .passes(let out, let counts):
                    #expect(run.fault == nil)
                    let isSame = run.out == out && run.counts == counts
                    #expect(isSame, "seed \(seed) cut at \(cuts)")
                case .aboveTier: #expect(run.fault == .aboveTier)
                case .noList: #expect(run.fault == .noList)
                }
            }
        }
    }

    /// Typical answers of servers: the same members in each element.
    @Test(arguments: 0..<15) func listsAreThoseOfTheReference(_ route: Int) throws {
        let (texts, unlabelled) = Self.routes[route]
        let plan = try JSONFilterTests.plan(texts, unlabelled)
        let reference = ReferenceFilter(paths: texts, tiers: JSONFilterTests.tiers.names, tier: 1, unlabelled: unlabelled)
        for (comma, colon, line) in [(",", ":", ""), (", ", ": ", ""), (",", ": ", "\n  "), (" , ", " : ", "")] {
            let elements = ["free", "premium", "plus", "gold", "free"].enumerated().map { index, tier in
                let members = [
                    #""id"\#(colon)\#(index)"#, #""title"\#(colon)"A title of some length""#, #""tier"\#(colon)"\#(tier)""#,
                    #""score"\#(colon)-\#(index).5"#, #""tags"\#(colon)["a"\#(comma)"b"]"#,
                    #""data"\#(colon){"tier"\#(colon)"free"\#(comma)"x"\#(colon)[1]}"#,
                    #""items"\#(colon)[{"tier"\#(colon)"\#(tier)"}]"#, #""next"\#(colon)null"#,
                ]
                let shifted = members[index...] + members[..<index]
                return "{" + shifted.map { line + $0 }.joined(separator: comma) + line + "}"
            }
            let text = Array(
                #"{"count"\#(colon)5\#(comma)"results"\#(colon)[\#(elements.joined(separator: comma))]\#(comma)"next"\#(colon)[]}"#.utf8)
            let expected = reference.filter(text)
            for cuts in [[], Array(0..<text.count)] + (0..<text.count).map({ [$0] }) {
                let run = JSONFilterTests.Run(plan, text, cuts: cuts)
                guard case .passes(let out, let counts) = expected else {
                    #expect(expected == .noList && run.fault == .noList || expected == .aboveTier && run.fault == .aboveTier)
                    continue
                }
                #expect(run.fault == nil)
                let isSame = run.out == out && run.counts == counts
                #expect(isSame, "cut at \(cuts)")
            }
        }
    }

    @Test func hiddenElementsNeverReachTheOutput() throws {
        let plan = try JSONFilterTests.plan(["tier"])
        var random = SplitMix64(seed: 11)
        var removed = 0
        for seed in 0..<600 {
            var documents = FilterDocuments(random: SplitMix64(seed: UInt64(seed)), allowed: ["free", "plus"])
            let text = documents.next()
            let cuts = (0..<4).map { _ in Int.random(in: 0...text.count, using: &random) }.sorted()
            let run = JSONFilterTests.Run(plan, text, cuts: cuts)
            removed += Int(run.counts.dropped)
            #expect(!run.text.contains(FilterDocuments.marker), "seed \(seed)")
        }
        #expect(removed > 200)
    }

    @Test func aCorruptTextIsRefusedOrFilteredByItsNewMeaning() throws {
        let plan = try JSONFilterTests.plan(["tier"])
        let reference = ReferenceFilter(paths: ["tier"], tiers: JSONFilterTests.tiers.names, tier: 1)
        var random = SplitMix64(seed: 12)
        var faults = 0
        for seed in 0..<1_500 {
            var documents = FilterDocuments(random: SplitMix64(seed: UInt64(seed % 300)), allowed: ["free", "plus"])
            var text = documents.next()
            text[Int.random(in: 0..<text.count, using: &random)] = [0x20, 0x5B, 0x7D, 0x2C, 0x22, 0x5C, 0x7B, 0xFF, 0x65].randomElement(
                using: &random)!
            let cuts = (0..<3).map { _ in Int.random(in: 0...text.count, using: &random) }.sorted()
            let run = JSONFilterTests.Run(plan, text, cuts: cuts)
            guard run.fault == nil else {
                faults += 1
                continue
            }
            guard case .passes(let out, _) = reference.filter(text) else {
                Issue.record("seed \(seed) should not have passed")
                continue
            }
            let isSame = run.out == out
            #expect(isSame, "seed \(seed)")
        }
        #expect(faults > 500)
    }
}
