// An idempotent producer, transactional if it has an id.
'use strict'

const { CompressionTypes } = require('kafkajs')
const { kafka, decoded, offsetsByTopic } = require('./kafka')
const { Unsupported } = require('./errors')

// Records as kafkajs groups them: [{ topic, messages: [...] }].
function byTopic(records) {
  const topics = new Map()
  for (const { topic, ...message } of records) {
    if (!topics.has(topic)) topics.set(topic, [])
    topics.get(topic).push(message)
  }
  return [...topics].map(([topic, messages]) => ({ topic, messages }))
}

class Producer {
  constructor({ transactional_id, transaction_timeout_ms, compression, ...where }) {
    if (compression !== null && compression !== 'gzip') {
      throw new Unsupported(`kafkajs itself has no ${compression}`)
    }
    this.compression = compression === null ? CompressionTypes.None : CompressionTypes.GZIP
    this.waiting = []
    this.sending = null
    this.failed = null
    this.transaction = null
    this.raw = kafka(where).producer({
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
    this.transaction = await this.raw.transaction()
  }

  // kafkajs may change the order of sends that overlap, so there is one at a time, of all records that wait for it.
  async send({ topic, partition, key, value }) {
    this.waiting.push({ topic, partition, key: decoded(key), value: decoded(value) })
    this.sending = this.sending || this.sendAll()
  }

  async sendAll() {
    await this.connect()
    while (this.waiting.length) {
      const topicMessages = byTopic(this.waiting)
      this.waiting = []
      const sender = this.transaction || this.raw
      await sender.sendBatch({ topicMessages, compression: this.compression }).catch(error => {
        this.failed = this.failed || error
      })
    }
    this.sending = null
  }

  async flush() {
    await this.sending
    const failed = this.failed
    this.failed = null
    if (failed) throw failed
  }

  async send_offsets({ offsets, consumer }, other) {
    await this.transaction.sendOffsets({ consumerGroupId: other(consumer).group, topics: offsetsByTopic(offsets) })
  }

  async commit() {
    await this.flush()
    await this.transaction.commit()
  }

  async abort() {
    await this.sending
    this.failed = null
    await this.transaction.abort()
  }

  async close() {
    await this.raw.disconnect()
  }
}

module.exports = { Producer }
