// node-beanstalk: promises, JSON bodies, null for "not there", a pool.
'use strict'

const { Client, Pool } = require('node-beanstalk')
const { JsonSerializer } = require('node-beanstalk/dist/serializer/JsonSerializer')
const { host, port, step, pending } = require('./story')

const options = { host, port, serializer: new JsonSerializer(), maxPayloadSize: 1 << 20 }

async function produce (producer) {
  await step('use', () => producer.use('mail'))
  await step('used', () => producer.listTubeUsed())
  await step('put', () => producer.put({ to: 'you' }, 30, 10))
  await step('put urgent', () => producer.put([1, null, 'crème brûlée'], 30, 1))
  await step('put delayed', () => producer.put('later', 30, 0, 3600))
  await step('put too big', () => producer.put('x'.repeat(65536)))
}

async function look (client) {
  await step('peek', () => client.peek(1))
  await step('peek none', () => client.peek(99))
  await step('peek ready', () => client.peekReady())
  await step('peek delayed', () => client.peekDelayed())
  await step('peek buried', () => client.peekBuried())
  await step('stats-job', () => client.statsJob(3))
  await step('stats-job none', () => client.statsJob(99))
  await step('stats-tube', () => client.statsTube('mail'))
  await step('stats-tube none', () => client.statsTube('nowhere'))
  await step('stats', () => client.stats())
  await step('list-tubes', async () => (await client.listTubes()).sort())
}

async function consume (worker, producer) {
  await step('watch', () => worker.watch('mail'))
  await step('ignore', () => worker.ignore('default'))
  await step('ignore the last', () => worker.ignore('mail'))
  await step('watched', () => worker.listTubesWatched())
  await step('reserve', () => worker.reserve())
  await step('touch', () => worker.touch(2))
  await step('touch by another', () => producer.touch(2))
  await step('delete by another', () => producer.delete(2))
  await step('release', () => worker.release(2, 20, 0))
  await step('release again', () => worker.release(2, 20, 0))
  await step('in its new place', () => worker.reserveWithTimeout(0))
  await step('bury', () => worker.bury(1, 7))
  await step('kick', () => producer.kick(5))
  await step('reserve-job', () => worker.reserveJob(3))
  await step('reserve-job none', () => worker.reserveJob(99))
  await step('bury it', () => worker.bury(3))
  await step('kick-job', () => producer.kickJob(3))
  await step('kick-job again', () => producer.kickJob(3))
  await step('release for an hour', async () => {
    await worker.reserveJob(3)
    return worker.release(3, 0, 3600)
  })
  for (const at of [1, 2]) {
    await step(`done ${at}`, async () => worker.delete((await worker.reserveWithTimeout(0)).id))
  }
  await step('delete a delayed one', () => producer.delete(3))
  await step('delete none', () => producer.delete(3))
  await step('nothing left', () => worker.reserveWithTimeout(0))
}

async function pause (worker, producer) {
  await step('pause', () => producer.pauseTube('mail', 1))
  await step('pause none', () => producer.pauseTube('nowhere', 1))
  await step('put', () => producer.put('paused', 30))
  await step('not while it is paused', () => worker.reserveWithTimeout(0))
  await step('stats-tube of a paused one', () => producer.statsTube('mail'))
  await step('after the pause', () => worker.reserveWithTimeout(5))
  await step('delete', () => worker.delete(4))
}

async function pool () {
  const clients = new Pool({ capacity: 3, clientOptions: options })
  await clients.connect()
  const [one, two] = [await clients.connect(), await clients.connect()]
  await step('pool put', () => one.put('pooled'))
  await step('pool reserve', () => two.reserveWithTimeout(0))
  await step('pool delete', () => two.delete(6))
  await one.releaseClient()
  await two.releaseClient()
  await clients.disconnect()
}

async function main () {
  const [producer, worker] = [new Client(options), new Client(options)]
  await producer.connect()
  await worker.connect()
  await produce(producer)
  await look(producer)
  await consume(worker, producer)
  await pause(worker, producer)
  const job = worker.reserve()
  await pending('reserve', job, 100)
  await step('wake it', () => producer.put('wake up', 1))
  await step('woken', () => job)
  await step('deadline soon', () => worker.reserve())
  await pool()
  await worker.disconnect()
  await step('back after its holder left', async () => {
    await producer.watch('mail')
    return producer.reserveWithTimeout(5)
  })
  await producer.disconnect()
}

main()
