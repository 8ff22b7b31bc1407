// An idempotent producer, transactional if it has an id.
'use strict'

const { CompressionTypes } = require('kafkajs')
const { kafka, decoded, byTopic } = require('./kafka')
const { Unsupported } = require('./errors')

class Producer {
  constructor({ bootstrap, transactional_id, transaction_timeout_ms, compression }) {
    if (compression !== null && compression !== 'gzip') {
      throw new Unsupported(`kafkajs itself has no ${compression}`)
    }
    this.compression = compression === null ? CompressionTypes.None : CompressionTypes.GZIP
    this.sent = []
    this.transaction = null
    this.raw = kafka(bootstrap).producer({
      idempotent: true,
      maxInFlightRequests: 1,
      transactionalId: transactional_id === null ? undefined : transactional_id,
      transactionTimeout: transaction_timeout_ms,
    })
    this.connected = null
  }

  connect() {
    this.connected = this.connected || this.raw.connect()
    return this.connected
  }

  // kafkajs asks for the producer id of a transactional id when its first transaction begins, so an empty one is begun.
  async init() {
    await this.connect()
    const empty = await this.raw.transaction()
    await empty.abort()
  }

  async begin() {
    this.sent = []
    this.transaction = await this.raw.transaction()
  }

  // Each record is a request of its own. They leave in order: kafkajs sends to a broker one after another.
  async send({ topic, partition, key, value }) {
    await this.connect()
    const sender = this.transaction || this.raw
    const message = { partition, key: decoded(key), value: decoded(value) }
    const promise = sender.send({ topic, compression: this.compression, messages: [message] })
    promise.catch(() => {}) // flush tells
    this.sent.push(promise)
  }

  async flush() {
    const sent = this.sent
    this.sent = []
    for (const result of await Promise.allSettled(sent)) {
      if (result.status === 'rejected') throw result.reason
    }
  }

  async send_offsets({ offsets, consumer }, other) {
    await this.transaction.sendOffsets({ consumerGroupId: other(consumer).group, topics: byTopic(offsets) })
  }

  async commit() {
    await this.flush()
    await this.transaction.commit()
  }

  async abort() {
    await Promise.allSettled(this.sent)
    this.sent = []
    await this.transaction.abort()
  }

  async close() {
    await this.raw.disconnect()
  }
}

module.exports = { Producer }
