"""The fault programme of streams/engine: real Kafka, real workers, faults one after the other, an oracle of its own."""
