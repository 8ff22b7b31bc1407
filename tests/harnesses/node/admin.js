// The admin calls.
'use strict'

const { ConfigResourceTypes } = require('kafkajs')
const { kafka } = require('./kafka')

const pairs = configs => Object.entries(configs).map(([name, value]) => ({ name, value }))

class Admin {
  constructor(where) {
    this.raw = kafka(where).admin()
    this.connecting = null
  }

  async asked() {
    this.connecting = this.connecting || this.raw.connect()
    await this.connecting
    return this.raw
  }

  async create_topic({ name, partitions, replicas, configs }) {
    const topic = { topic: name, numPartitions: partitions, replicationFactor: replicas, configEntries: pairs(configs) }
    const created = await (await this.asked()).createTopics({ topics: [topic] })
    if (!created) throw new Error(`the topic ${name} exists already`) // it says so by answering false
  }

  async delete_topic({ name }) {
    await (await this.asked()).deleteTopics({ topics: [name] })
  }

  async topics() {
    const { topics } = await (await this.asked()).fetchTopicMetadata()
    return Object.fromEntries(topics.map(({ name, partitions }) => [name, partitions.length]))
  }

  async add_partitions({ topic, total }) {
    await (await this.asked()).createPartitions({ topicPartitions: [{ topic, count: total }] })
  }

  async topic_config({ topic, name }) {
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic, configNames: [name] }
    const { resources } = await (await this.asked()).describeConfigs({ resources: [resource], includeSynonyms: false })
    return resources[0].configEntries.find(each => each.configName === name).configValue
  }

  async set_topic_config({ topic, name, value }) {
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name, value }] }
    await (await this.asked()).alterConfigs({ validateOnly: false, resources: [resource] })
  }

  async groups() {
    return (await (await this.asked()).listGroups()).groups.map(each => each.groupId)
  }

  // kafkajs finds the leader only if it has looked at the topic before.
  async delete_records({ topic, partition, before }) {
    await (await this.asked()).fetchTopicOffsets(topic)
    await (await this.asked()).deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] })
  }

  async delete_group({ group }) {
    await (await this.asked()).deleteGroups([group])
  }

  async close() {
    if (this.connecting !== null) await this.raw.disconnect()
  }
}

module.exports = { Admin }
