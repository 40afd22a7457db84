package receiver;

import java.net.URI;
import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** Serves the controller of docs/webhooks/frameworks.md with Spring Boot, on PORT, with the database of DATABASE_URL. */
@SpringBootApplication
class Main {
    public static void main(String[] arguments) {
        URI url = URI.create(System.getenv("DATABASE_URL"));
        String[] user = url.getUserInfo().split(":");
        SpringApplication application = new SpringApplication(Main.class);
        application.setDefaultProperties(Map.of(
                "server.address", "127.0.0.1",
                "server.port", System.getenv("PORT"),
                "spring.datasource.url", "jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath(),
                "spring.datasource.username", user[0],
                "spring.datasource.password", user[1],
                "spring.datasource.hikari.maximum-pool-size", "2"));
        application.run(arguments);
    }
}
