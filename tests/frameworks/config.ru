# Serves the controller of docs/webhooks/frameworks.md with Rails, with the database of DATABASE_URL.
require "rails"
require "action_controller/railtie"
require "active_record"
require_relative "verify"

class Receiver < Rails::Application
  config.eager_load = false
  config.secret_key_base = "of-a-test"
  config.logger = Logger.new($stderr)
  routes.append { post "/webhooks/docket", to: "docket#receive" }
end

ActiveRecord::Base.establish_connection(ENV.fetch("DATABASE_URL"))
require_relative "receiver"
Receiver.initialize!
run Receiver
