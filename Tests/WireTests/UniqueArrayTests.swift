import Testing
import Wire

@Suite struct UniqueArrayTests {
    /// Compared with `Array`, with reference-counted elements: none is leaked or released too early.
    @Test func itHoldsTheSameElementsAsAnArray() {
        final class Counted {}
        weak var last: Counted?
        do {
            var random = SplitMix64(seed: 9)
            var places = UniqueArray<(UInt64, Counted)>()
            var model: [(UInt64, Counted)] = []
            for _ in 0..<5_000 {
                switch random.next() % 8 {
                case 0...3:
                    let element = (random.next(), Counted())
                    places.append(element)
                    model.append(element)
                case 4 where !model.isEmpty:
                    let index = Int(random.next() % UInt64(model.count))
                    places[index].0 &+= 1
                    model[index].0 &+= 1
                case 5...6:
                    let (popped, expected) = (places.popLast(), model.popLast())
                    #expect(popped?.0 == expected?.0 && popped?.1 === expected?.1)
                case 7 where random.next() % 50 == 0:
                    places.removeAll()
                    model.removeAll()
                default: break
                }
                let (count, isEmpty) = (places.count, places.isEmpty)
                #expect(count == model.count && isEmpty == model.isEmpty)
            }
            let isSame = (0..<places.count).allSatisfy { places[$0].0 == model[$0].0 && places[$0].1 === model[$0].1 }
            #expect(isSame)
            let kept = Counted()
            places.append((0, kept))
            last = kept
        }
        #expect(last == nil)
    }

    @Test func anArrayOfRepeatedElementsIsMade() {
        var table = UniqueArray(repeating: "a", count: 3)
        table[1] = "b"
        let texts = (0..<table.count).map { table[$0] }
        #expect(texts == ["a", "b", "a"])
        let empty = UniqueArray(repeating: 0, count: 0)
        let count = empty.count
        #expect(count == 0)
    }
}
