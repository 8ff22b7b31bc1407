// A consumer: kafkajs pushes records to a function, which keeps them until they are read.
'use strict'

const { randomUUID } = require('crypto')
const { kafka, encoded } = require('./kafka')
const { Unsupported } = require('./errors')

class Consumer {
  constructor({ group, instance_id, committed_only, max_wait_ms, ...where }) {
    if (instance_id !== null) throw new Unsupported('kafkajs has no static members')
    this.alone = group === null
    this.group = this.alone ? `reader-${randomUUID()}` : group // it cannot read without a group
    this.committedOnly = committed_only
    this.raw = kafka(where).consumer({
      groupId: this.group,
      sessionTimeout: 10_000, // who takes over from a copier that was killed waits for its end, see assign
      heartbeatInterval: 300,
      readUncommitted: !committed_only,
      maxWaitTimeInMs: max_wait_ms,
    })
    this.admin = kafka(where).admin()
    this.asking = null
    this.records = []
    this.owned = []
    this.wanted = null
    this.crashed = null
    this.wake = () => {}
    this.raw.on(this.raw.events.GROUP_JOIN, ({ payload }) => this.joined(payload.memberAssignment))
    this.raw.on(this.raw.events.REBALANCING, () => this.joined({}))
    this.raw.on(this.raw.events.CRASH, ({ payload }) => this.crash(payload))
  }

  // What was fetched of partitions that belong to somebody else now is theirs to read.
  joined(assignment) {
    this.owned = Object.entries(assignment).flatMap(([topic, partitions]) => partitions.map(each => [topic, each]))
    this.records = []
  }

  crash({ error, restart }) {
    if (!restart) this.crashed = error
    this.wake()
  }

  async asked() {
    this.asking = this.asking || this.admin.connect()
    await this.asking
    return this.admin
  }

  async subscribe({ topics }) {
    await this.raw.connect()
    await this.raw.subscribe({ topics, fromBeginning: true })
    await this.raw.run({ autoCommit: false, eachBatch: async ({ batch }) => this.keep(batch) })
  }

  // kafkajs has no partitions without a group: a group of its own has them all, and is told where to read.
  async assign({ offsets }) {
    this.wanted = new Set(offsets.map(([topic, partition]) => `${topic}-${partition}`))
    await this.subscribe({ topics: [...new Set(offsets.map(([topic]) => topic))] })
    for (const [topic, partition, offset] of offsets) {
      if (offset > 0) this.raw.seek({ topic, partition, offset: String(offset) })
    }
  }

  keep({ topic, partition, messages }) {
    if (this.wanted !== null && !this.wanted.has(`${topic}-${partition}`)) return
    for (const { offset, key, value } of messages) {
      this.records.push([topic, partition, Number(offset), encoded(key), encoded(value)])
    }
    this.wake()
  }

  async read({ count, timeout_ms }) {
    const until = Date.now() + timeout_ms
    const found = []
    while (found.length < count && Date.now() < until) {
      if (this.crashed !== null) throw this.crashed
      if (this.records.length) found.push(this.records.shift())
      else await this.more(until - Date.now())
    }
    return found
  }

  more(atMostMs) {
    return new Promise(resolve => {
      const timer = setTimeout(resolve, atMostMs)
      this.wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  async assignment() {
    return this.owned
  }

  async commit({ offsets }) {
    const wanted = offsets.map(([topic, partition, offset]) => ({ topic, partition, offset: String(offset) }))
    await this.raw.commitOffsets(wanted)
  }

  async committed({ topic, partition }) {
    const admin = await this.asked()
    const [{ partitions }] = await admin.fetchOffsets({ groupId: this.group, topics: [topic] })
    const offset = Number(partitions.find(each => each.partition === partition).offset)
    return offset < 0 ? null : offset
  }

  async end_offset({ topic, partition }) {
    if (!this.committedOnly) throw new Unsupported('kafkajs asks for the last stable offset only')
    const partitions = await (await this.asked()).fetchTopicOffsets(topic)
    return Number(partitions.find(each => each.partition === partition).offset)
  }

  // It leaves once its fetch has come back, which only others of its group need to wait for.
  async close() {
    const left = this.raw.disconnect()
    if (!this.alone) await left
    if (this.asking !== null) await this.admin.disconnect()
  }
}

module.exports = { Consumer }
