# ruby-beaneater: jobs and tubes as objects, errors as exceptions; its own loop that processes jobs.
# Prints a line for each step; see node/story.js for their form.

require 'beaneater'
require 'json'
require 'timeout'

HOST, PORT = ARGV

def plain(value)
  case value
  when Beaneater::Job then { id: value.id, body: value.body.b.unpack1('H*') }
  when Beaneater::Tube then value.name
  when Hash then value.reject { |key, _| key == :connection }
  else value
  end
end

def show(name, value)
  if value.is_a?(Beaneater::StatStruct) || value.is_a?(Beaneater::Stats)
    puts "#{name} ->"
    value.keys.each { |key| puts "  #{key.tr('_', '-')}: #{value[key]}" }
  else
    told = value.is_a?(Array) ? value.map { |one| plain(one) } : plain(value)
    puts "#{name} -> #{told.to_json}"
  end
end

def step(name)
  value = yield
  show(name, value)
  value
rescue Beaneater::UnexpectedResponse => error
  puts "#{name} !! #{error.class.name.split('::').last}"
end

def produce(mail)
  step('put') { mail.put('hello', pri: 3, ttr: 30) }
  step('put urgent') { mail.put("\0\r\n\xff".b, pri: 1, ttr: 30) }
  step('put delayed') { mail.put('later', delay: 3600, ttr: 30) }
  step('put empty') { mail.put('', pri: 70) }
  step('put too big') { mail.put('x' * 65_536) }
end

def look(client, mail)
  %i[ready delayed buried].each { |state| step("peek #{state}") { mail.peek(state) } }
  step('find') { client.jobs.find(3) }
  step('find none') { client.jobs.find(99) }
  step('stats of a job') { client.jobs.find(3).stats }
  step('stats of a tube') { mail.stats }
  step('stats of no tube') { client.tubes.find('nowhere').stats }
  step('stats') { client.stats }
  step('tubes') { client.tubes.all.map(&:name).sort }
  step('used') { client.tubes.used }
end

def consume(client, worker)
  step('watch only') { worker.tubes.watch!('mail') }
  step('watched') { worker.tubes.watched }
  step('ignore the last') { worker.tubes.ignore('mail') }
  job = step('reserve') { worker.tubes.reserve(0) }
  step('state') { job.stats.state }
  step('touch') { job.touch }
  step('release') { job.release(pri: 10, delay: 0) }
  job = step('reserve another') { worker.tubes.reserve(0) }
  step('bury') { job.bury(pri: 2) }
  step('kick it') { job.kick }
  step('kick it again') { job.kick }
  step('kick the tube') { client.tubes['mail'].kick(10) }
  step('delete one of another') { worker.tubes.reserve(0) && client.jobs.find(3).delete }
  step('bounds of tubes') { client.tubes['mail'].put('more', pri: 1).fetch(:status) }
  step('reserve a block') { worker.tubes.reserve(0) { |one| puts "  body: #{one.body}" }.class.name }
end

# Not "pause": the library sends that name to itself to read a statistic.
def stop_for_a_while(client, worker)
  mail = client.tubes['mail']
  step('clear') { mail.clear.class.name }
  step('pause') { mail.pause(1) }
  step('put while paused') { mail.put('paused') }
  step('nothing while paused') { worker.tubes.reserve(0) }
  job = step('after the pause') { worker.tubes.reserve(5) }
  step('delete') { job.delete }
  step('delete again') { job.delete }
  step('nothing') { worker.tubes.reserve(0) }
end

# The library's loop: it registers a block for each tube, deletes what went well, buries what raised.
def process(client)
  worker = Beaneater.new("#{HOST}:#{PORT}")
  seen = []
  worker.jobs.register('good') { |job| seen << "good #{job.body}" }
  worker.jobs.register('bad') do |job|
    seen << "bad #{job.body}"
    raise Beaneater::AbortProcessingError if seen.size == 4
    raise 'no'
  end
  %w[good bad good bad].each_with_index { |tube, at| client.tubes[tube].put("job #{at}") }
  thread = Thread.new { worker.jobs.process!(reserve_timeout: 1) }
  Timeout.timeout(15) { sleep 0.02 while client.tubes['bad'].stats.current_jobs_buried < 2 }
  worker.jobs.stop!
  thread.join(15)
  worker.close
  sleep 0.2 # until the server has noticed, and nobody watches these tubes
  step('processed') { seen }
  %w[good bad].each { |tube| step("#{tube} after processing") { client.tubes[tube].stats } }
end

Timeout.timeout(30) do
  client = Beaneater.new("#{HOST}:#{PORT}")
  worker = Beaneater.new("#{HOST}:#{PORT}")
  mail = client.tubes.find('mail')
  produce(mail)
  look(client, mail)
  consume(client, worker)
  stop_for_a_while(client, worker)
  process(client)
  held = step('put') { client.tubes['mail'].put('held', ttr: 1) } && worker.tubes.reserve(0)
  step('held') { held }
  step('deadline soon') { worker.tubes.reserve(1) }
  worker.close
  client.tubes.watch('mail')
  step('back after its holder left') { client.tubes.reserve(5) }
  client.close
end
